"""What is prepared feeds the batches that the originals feed, and depends on nothing but them."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import json
import os
import pickle
import resource
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gpufeed
from gpufeed import ConfigError, DecodeError, Manifest, ManifestError, prepare, verify
from gpufeed import transforms as tf
from gpufeed.tools.prepare import pixels
from gpufeed.tools.prepare.folders import class_folders
from gpufeed.tools.prepare.shard import Job
from tests.support.loaders import digest, make
from tests.support.media import jpeg, make_manifest, picture
from tests.support.prepare_until import PREFIX

REST = [tf.RandomHorizontalFlip(), tf.ColorJitter(0.3), tf.Normalize()]
LOSSLESS: list[dict[str, Any]] = [
    {"to": "files", "image_format": "png"},
    {"to": "tar", "image_format": "png"},
    {"to": "parquet", "image_format": "png"},
    {"to": "arrayrecord", "image_format": "png"},
    {"to": "raw"},
]
TARGETS: dict[str, Any] = {
    "targets": ("boxes", "points", "box_points"),
    "collate_fn": "pad",
    "box_columns": ["weights"],
    "columns": ["day", "name"],
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Thirteen images of three classes, with all that an image may have."""
    drawn = np.random.default_rng(3)
    sizes = [(int(h), int(w)) for h, w in drawn.integers(40, 90, size=(13, 2))]
    manifest = make_manifest(tmp_path_factory.mktemp("originals"), sizes, boxes=True)
    boxes, weights, placed = [], [], []
    for number, (height, width) in enumerate(sizes):
        count = number % 3
        corner = drawn.uniform(0, 0.9, (count, 2)) * [width, height]
        end = corner + drawn.uniform(0.1, 1, (count, 2)) * ([width, height] - corner)
        boxes.append(np.hstack([corner, end]).tolist())
        weights.append(drawn.uniform(size=count).tolist())
        placed.append([[[x, y, 1.0], [0.0, 0.0, 0.0]] for x, y in corner.tolist()])
    points = [[[w / 2, h / 2, 1.0], [1.5, 0.5, 1.0]] for h, w in sizes]
    days = [datetime.date(2024, 1, 1 + number) for number in range(13)]
    frame = manifest.frame.with_columns(
        pl.Series("boxes", boxes, pl.List(pl.Array(pl.Float64, 4))),
        pl.Series("box_points", placed, pl.List(pl.Array(pl.Float64, (2, 3)))),
        pl.Series("points", points, pl.List(pl.Array(pl.Float64, 3))),
        pl.Series("weights", weights, pl.List(pl.Float64)),
        pl.Series("tags", [[f"tag {i}" for i in range(len(each))] for each in boxes], pl.List(str)),
        pl.Series("day", days),
        pl.Series("name", [f"bird {number}" for number in range(13)]),
    )
    return Manifest(frame, manifest.source, manifest.classes, box_columns=["weights"])


def files(folder: Path) -> dict[str, str]:
    """The digest of each file in a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def comparable(batch: dict[str, Any]) -> dict[str, Any]:
    """A batch whose coordinates are rounded, since they were added up in another order."""
    places = {name: np.round(batch[name], 3) for name in ("boxes", "points", "box_points")}
    texts = {name: list(map(str, batch[name])) for name in ("day", "name")}
    return {**batch, **places, **texts}


@pytest.mark.parametrize("options", LOSSLESS, ids=lambda options: options["to"])
def test_batches_and_states_are_those_of_the_originals(
    options: dict[str, Any], originals: Manifest, tmp_path: Path
) -> None:
    if options["to"] == "arrayrecord":
        pytest.importorskip("array_record")
    out = tmp_path / "{a,b}[1]*"  # is no pattern
    prepared = prepare(originals, out, PREFIX, shard_size=5, workers=1, **options)
    shared = {"transforms": [*PREFIX, *REST], "batch_size": 4, **TARGETS}
    with make(originals, **shared) as loader:
        wanted = [digest(comparable(loader.batch(step))) for step in range(6)]
        loader.seek(2)
        state = loader.state_dict()
    # As another process finds it, elsewhere.
    moved = out.rename(tmp_path / "moved")
    again = gpufeed.read_manifest(moved / "prepared.manifest")
    moved = pickle.loads(pickle.dumps(again))  # noqa: S301
    assert moved.fingerprint() == prepared.fingerprint()
    with make(moved, **shared) as loader:
        assert [digest(comparable(loader.batch(step))) for step in range(6)] == wanted
        loader.load_state_dict(state, ignore=["manifest"])
        assert digest(comparable(next(iter(loader)))) == wanted[2]
    with make(moved[3:9], **shared) as loader, make(originals[3:9], **shared) as other:
        assert digest(comparable(loader.batch(0))) == digest(comparable(other.batch(0)))
    assert verify(tmp_path / "moved", progress=False).is_empty()


def test_a_random_crop_after_a_resize_differs_by_a_level_at_most(
    originals: Manifest, tmp_path: Path
) -> None:
    prefix = [tf.Resize(40)]
    prepared = prepare(originals, tmp_path, prefix, to="raw", workers=1)
    transforms = [*prefix, tf.RandomCrop(32), tf.RandomHorizontalFlip()]
    with make(originals, transforms=transforms) as a, make(prepared, transforms=transforms) as b:
        pairs = [(a.batch(step)["image"], b.batch(step)["image"]) for step in range(4)]
    differences = np.abs(np.subtract(*map(np.int16, zip(*pairs, strict=True))))
    assert differences.max() <= 1
    assert (differences > 0).mean() < 0.01
    assert len({each.image().size for each in prepared[3:9]}) > 1


def test_pixels_are_those_of_pillow(originals: Manifest, tmp_path: Path) -> None:
    prepared = prepare(originals, tmp_path, PREFIX, to="raw", workers=1)
    for before, after in zip(originals, prepared, strict=True):
        row = before.row
        box = [row[name] for name in ("box_x", "box_y", "box_width", "box_height")]
        margin = int(box[2] * 0.2), int(box[3] * 0.2)
        left, top = max(box[0] - margin[0], 0), max(box[1] - margin[1], 0)
        right = min(box[0] + box[2] + margin[0], row["width"])
        bottom = min(box[1] + box[3] + margin[1], row["height"])
        factor = 48 / max(right - left, bottom - top)
        size = int((right - left) * factor), int((bottom - top) * factor)
        crop = before.image().crop((left, top, right, bottom))
        fitted = Image.new("RGB", (48, 48))
        shown = crop.resize(size, Image.Resampling.BILINEAR)
        fitted.paste(shown, ((48 - size[0]) // 2, (48 - size[1]) // 2))
        difference = np.abs(np.asarray(fitted, np.int16) - np.asarray(after.image(), np.int16))
        assert difference.max() <= 2
        assert difference.mean() < 0.2


@pytest.mark.parametrize(
    ("options", "encoding"),
    [
        ({"quality": 60, "subsampling": "4:4:4"}, {"quality": 60, "subsampling": "4:4:4"}),
        ({}, {"quality": 95, "subsampling": "4:2:0"}),
        ({"image_format": "webp", "quality": 70}, {"quality": 70}),
    ],
)
def test_images_are_encoded_as_asked(
    options: dict[str, Any], encoding: dict[str, Any], originals: Manifest, tmp_path: Path
) -> None:
    raw = prepare(originals, tmp_path / "raw", PREFIX, to="raw", workers=1)
    prepared = prepare(originals, tmp_path / "out", PREFIX, to="files", workers=1, **options)
    for one, other in zip(raw, prepared, strict=True):
        buffer = io.BytesIO()
        one.image().save(buffer, options.get("image_format", "jpeg"), **encoding)
        file = tmp_path / "out" / other.row["path"]
        assert file.read_bytes() == buffer.getvalue()
        assert other.row["sha256"] == hashlib.sha256(buffer.getvalue()).hexdigest()


def test_bytes_do_not_depend_on_workers_or_on_what_was_there(
    originals: Manifest, tmp_path: Path
) -> None:
    shared = {"transforms": PREFIX, "to": "parquet", "shard_size": 3, "progress": False}
    prepare(originals, tmp_path / "one", workers=1, **shared)
    three = tmp_path / "three"
    prepare(originals, three, workers=3, **shared)
    assert files(tmp_path / "one") == files(three)
    times = {path: path.stat().st_mtime_ns for path in three.iterdir()}
    prepare(originals, three, workers=3, **shared)
    assert {path: path.stat().st_mtime_ns for path in three.iterdir()} == times


def test_a_shard_is_on_the_disk_before_it_counts_as_done(
    originals: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, out = set(), tmp_path / "out"
    plain, replace = os.fsync, Path.replace

    def fsync(file: int) -> None:
        plain(file)
        synced.add(os.fstat(file).st_ino)

    def checked(path: Path, target: Path) -> Path:
        if target.parent.name == ".prepare":
            images = [*out.rglob("*.jpg")]
            assert len(images) == min(4 * (int(target.stem) + 1), len(originals))
            assert {image.stat().st_ino for image in [*images, path]} <= synced
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", checked)
    assert len(prepare(originals, out, PREFIX, to="files", shard_size=4, workers=1)) == 13


def test_what_was_interrupted_goes_on(
    originals: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a full disk: no file of this process may grow beyond some length."""
    shared = {"transforms": PREFIX, "to": "raw", "shard_size": 4, "workers": 1}
    prepare(originals[:8], tmp_path / "wanted", **shared)
    out = tmp_path / "out"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * 48 * 48 * 3 - 1, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: .*shard-000000\.raw"):
            prepare(originals[:8], out, **shared)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (out / ".0123456789abcdef.unfinished").touch()
    prepare(originals[:8], out, **shared)
    assert files(out) == files(tmp_path / "wanted")


@pytest.mark.parametrize("finished", [True, False])
def test_images_that_have_changed_are_prepared_into_another_folder(
    originals: Manifest, tmp_path: Path, finished: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old ones are neither returned nor mixed with new ones, though the manifest is the same."""
    folder, out = tmp_path / "images", tmp_path / "out"
    shutil.copytree(originals.root, folder)
    manifest = Manifest(originals.frame, folder, originals.classes)
    make_shard = Job.make

    def stopped(job: Job, number: int, *rest: Any) -> None:
        if number == 2 and not finished:
            raise KeyboardInterrupt
        make_shard(job, number, *rest)

    shared: dict[str, Any] = {"shard_size": 5, "workers": 1}
    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(Job, "make", stopped)
        prepare(manifest, out, PREFIX, **shared)
    before = files(out)
    changed = folder / originals.frame["path"][7]
    height, width = originals.sizes()[7].tolist()
    changed.write_bytes(jpeg(picture(height, width, seed=99)))
    again = Manifest(originals.frame, folder, originals.classes)
    assert again.fingerprint() == manifest.fingerprint()
    with pytest.raises(ConfigError, match="was prepared from images that have been changed or mov"):
        prepare(again, out, PREFIX, **shared)
    assert files(out) == before


def test_other_libraries_read_it(originals: Manifest, tmp_path: Path) -> None:
    """Each by its own means, without the manifest."""
    shared: dict[str, Any] = {"transforms": PREFIX, "shard_size": 5, "workers": 1}
    for to in ("tar", "parquet", "files"):
        prepare(originals, tmp_path / to, to=to, **shared)
    wanted = gpufeed.read_manifest(tmp_path / "tar" / "prepared.manifest")
    contents = [bytes(each) for each in wanted.source.read(np.arange(13))]
    labels = originals.frame["label"].to_list()
    members: dict[str, list[bytes]] = {"jpg": [], "cls": [], "json": []}
    for path in sorted((tmp_path / "tar").glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                opened = tar.extractfile(member)
                assert opened is not None
                members[member.name.partition(".")[2]].append(opened.read())
    assert members["jpg"] == contents
    assert [int(each) for each in members["cls"]] == labels
    columns = [json.loads(each)["original"] for each in members["json"]]
    assert columns == originals.frame["path"].to_list()
    table = pl.read_parquet(tmp_path / "parquet" / "*.parquet")
    assert table["image"].struct.field("bytes").to_list() == contents
    assert table["day"].to_list() == originals.frame["day"].to_list()
    folders = gpufeed.read_folder(tmp_path / "files" / "images", progress=False)
    assert folders.classes == originals.classes
    by_name = zip(folders.frame["path"].str.split("/").list.last(), folders, strict=True)
    named = dict(by_name)
    assert [named[name].row["label"] for name in sorted(named)] == labels


@pytest.mark.parametrize("to", ["files", "tar", "raw"])
def test_what_was_copied_is_read_from_there(to: Any, originals: Manifest, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    out, store = tmp_path / "out", tmp_path / "store"
    prepared = prepare(originals, out, PREFIX, to=to, shard_size=5, workers=1)
    wanted = [np.asarray(record.image()) for record in prepared]
    shutil.copytree(out, store)
    for path in [*out.glob("shard*"), *out.glob("images")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    found = gpufeed.read_manifest(out / "prepared.manifest", root=f"file://{store}")
    for record, image in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(record.image(), image)


def test_boxes_and_points_that_are_cropped_away(originals: Manifest, tmp_path: Path) -> None:
    """Boxes are dropped with their values, and points hidden; one box an image is no more."""
    prepared = prepare(originals, tmp_path, [tf.CenterCrop(16)], to="raw", workers=1)
    assert prepared.has_boxes  # in the middle
    corner = prepare(originals, tmp_path / "corner", [tf.CenterCrop(8)], to="raw", workers=1)
    counts = corner.frame["boxes"].list.len()
    assert counts.sum() < originals.frame["boxes"].list.len().sum()
    assert (corner.frame["weights"].list.len() == counts).all()
    # Tags that happen to be as many as the boxes are no box's.
    assert corner.frame["tags"].equals(originals.frame["tags"])
    again = gpufeed.read_manifest(tmp_path / "corner" / "prepared.manifest")
    assert again.box_columns == corner.box_columns == originals.box_columns == ("weights",)
    assert (corner.points()[:, 1, 2] == 0).all()  # type: ignore[index]
    edge = originals.frame.with_columns(
        box_x=pl.lit(0), box_y=pl.lit(0), box_width=pl.lit(2), box_height=pl.lit(2)
    )
    moved = Manifest(edge, originals.source, originals.classes)
    assert not prepare(moved, tmp_path / "edge", [tf.CenterCrop(8)], workers=1).has_boxes


@pytest.fixture
def damaged(originals: Manifest, tmp_path: Path) -> Manifest:
    """Seven images, of which one is cut off, one is missing and one has another size."""
    folder = tmp_path / "damaged"
    shutil.copytree(originals.root, folder)
    cut = folder / "00001.jpg"
    cut.write_bytes(cut.read_bytes()[:700])
    (folder / "00004.jpg").unlink()
    (folder / "00006.jpg").write_bytes(jpeg(picture(30, 30, seed=1)))
    return Manifest(originals.frame[:7], folder, originals.classes)


def test_bad_images_are_dropped_and_listed(damaged: Manifest, tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepared = prepare(damaged, out, PREFIX, to="tar", shard_size=1, workers=1)
    assert prepared.frame["original"].to_list() == [f"{n:05}.jpg" for n in (0, 2, 3, 5)]
    assert prepared.repairs["images_dropped"] == 3
    report = pl.read_csv(out / "dropped.csv")
    assert report["record_key"].to_list() == [1, 4, 6]
    assert report["path"].to_list() == ["00001.jpg", "00004.jpg", "00006.jpg"]
    for reason, said in zip(report["reason"], ("damaged", "No such file", "30 x 30"), strict=True):
        assert said in reason
    assert len(list(out.glob("*.tar"))) == 4
    huge = damaged.frame.with_columns(width=pl.lit(2**30), height=pl.lit(2**30))
    bombs = Manifest(huge, damaged.root, damaged.classes)
    with pytest.raises(ManifestError, match="more than max_pixels"):
        prepare(bombs, tmp_path / "bombs", [tf.Pad(1)], to="raw", workers=1)
    with pytest.raises(DecodeError, match=r"record 1 \(.*00001.jpg\): the image is damaged"):
        prepare(damaged, tmp_path / "raised", PREFIX, on_error="raise", workers=1)
    with pytest.raises(ManifestError, match="all 1 images are bad; the first: cannot be read"):
        prepare(damaged[4:5], tmp_path / "none", PREFIX, workers=1)


def test_prepared_images_are_prepared_again(originals: Manifest, tmp_path: Path) -> None:
    """What they have been through is left out, also here."""
    more = [*PREFIX, tf.Pad(3)]
    once = prepare(originals, tmp_path / "once", more, to="raw", workers=1)
    half = prepare(originals, tmp_path / "half", PREFIX, to="raw", workers=1)
    twice = prepare(half, tmp_path / "twice", more, to="raw", workers=1)
    assert twice.prepared == once.prepared
    assert twice.frame["sha256"].to_list() == once.frame["sha256"].to_list()
    assert twice.frame["original"].to_list() == originals.frame["path"].to_list()
    packed = prepare(half, tmp_path / "packed", to="tar", image_format="png", workers=1)
    assert packed.prepared == half.prepared
    for one, other in zip(half, packed, strict=True):
        np.testing.assert_array_equal(one.image(), other.image())


def test_columns_of_any_name_go_along(originals: Manifest, tmp_path: Path) -> None:
    """Also those that have the names of columns in the files that are written."""
    own = {"start": 1, "length": 2, "image.bytes": b"12345678", "file": "a", "name": "b"}
    frame = originals.frame.with_columns(pl.lit(value).alias(name) for name, value in own.items())
    manifest = Manifest(frame, originals.source, originals.classes)
    for to in ("tar", "parquet", "raw"):
        prepared = prepare(manifest, tmp_path / to, PREFIX, to=to, workers=1)  # type: ignore[arg-type]
        assert prepared.frame.select([*own]).row(7, named=True) == own
        assert verify(tmp_path / to, progress=False).is_empty()
    for name in ("original", "sha256"):
        taken = Manifest(
            frame.with_columns(pl.lit("x").alias(name)), originals.source, originals.classes
        )
        with pytest.raises(ManifestError, match=f"the column '{name}', which prepare writes"):
            prepare(taken, tmp_path / "taken", PREFIX)


def test_only_lists_for_boxes_lose_what_boxes_do(originals: Manifest, tmp_path: Path) -> None:
    """Not those of images with one box, and not those with nulls."""
    frame = originals.frame.drop("boxes", "box_points", "weights", "tags").with_columns(
        tags=pl.Series([["bird"]] * 12 + [None]),
        **dict.fromkeys(("box_x", "box_y"), pl.lit(0)),
        **dict.fromkeys(("box_width", "box_height"), pl.lit(2)),
    )
    boxes = frame.with_columns(boxes=pl.Series([[[0.0, 0.0, 2.0, 2.0]]] * 13))
    for number, each in enumerate((frame, boxes.cast({"boxes": pl.List(pl.Array(pl.Float64, 4))}))):
        manifest = Manifest(each, originals.source, originals.classes)
        crop = [tf.CenterCrop(8)]
        prepared = prepare(manifest, tmp_path / f"{number}", crop, to="raw", workers=1)
        assert prepared.frame["tags"].to_list() == frame["tags"].to_list()
        assert prepared.frame["boxes"].list.len().sum() == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "the image is 76,800 x 256 pixels (width x height), and jpeg has 65,500 a side"),
        ({"image_format": "webp"}, "and webp has 16,383 a side at most"),
        ({"max_pixels": 1 << 20}, "has 76800 x 256 = 19,660,800 pixels, more than max_pixels"),
    ],
)
def test_an_image_that_becomes_too_large_is_bad(
    options: dict[str, Any], text: str, tmp_path: Path
) -> None:
    """Strangers' images may be of one line, which a resize makes very long."""
    manifest = make_manifest(tmp_path / "in", [(40, 60), (1, 300), (50, 60)])
    prepared = prepare(manifest, tmp_path / "out", [tf.Resize(256)], workers=1, **options)
    assert len(prepared) == 2
    (reason,) = pl.read_csv(tmp_path / "out" / "dropped.csv")["reason"]
    assert reason.startswith("after the transforms, the image ")
    assert text in reason


def test_a_folder_of_something_else_is_left_alone(originals: Manifest, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    (tmp_path / "other" / ".mine.unfinished").touch()
    for content in ("", "[]", "{}"):
        with pytest.raises(ConfigError, match="other is not empty, and was not made by prepare"):
            prepare(originals, tmp_path / "other", PREFIX)
        (tmp_path / "other" / "prepared.json").write_text(content)
    assert len([*(tmp_path / "other").iterdir()]) == 3
    with pytest.raises(ConfigError, match=r"thesis\.tex is not a folder; name a new one"):
        prepare(originals, tmp_path / "other" / "thesis.tex", PREFIX)
    prepare(originals, tmp_path / "out", PREFIX, workers=1)
    with pytest.raises(ConfigError, match=r"prepared with the quality 95, not 80; prepare into"):
        prepare(originals, tmp_path / "out", PREFIX, quality=80)
    with pytest.raises(ConfigError, match="prepared with the manifest "):
        prepare(originals[1:], tmp_path / "out", PREFIX)
    with pytest.raises(ManifestError, match=r"other has no prepared\.manifest; it was not made"):
        verify(tmp_path / "other")


@pytest.mark.parametrize("to", ["files", "tar", "raw"])
def test_verify_finds_what_was_changed(to: Any, originals: Manifest, tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepared = prepare(originals, out, PREFIX, to=to, shard_size=5, workers=1)
    paths = prepared.frame["path"]
    if to == "files":
        changed, missing, gone = out / paths[2], out / paths[7], [7]
        content = bytearray(changed.read_bytes())
        content[-5] ^= 1
    else:
        changed, missing = out / f"shard-000000.{to}", out / f"shard-000002.{to}"
        gone = [10, 11, 12]
        content = bytearray(changed.read_bytes())
        place = prepared.source.place(2)  # type: ignore[attr-defined]
        content[place.start + place.length - 1] ^= 1
    changed.write_bytes(content)
    missing.unlink()
    bad = verify(out, progress=False)
    assert bad["record_key"].to_list() == [2, *gone]
    assert bad["path"].to_list() == [paths[2], *paths.gather(gone)]
    assert bad["problem"][0] == "other bytes"
    assert all("No such file" in problem for problem in bad["problem"][1:])
    manifest = out / "prepared.manifest"
    content = bytearray(manifest.read_bytes())
    place = content.index(b"bird 3")
    content[place : place + 6] = b"bird 4"
    manifest.write_bytes(content)
    with pytest.raises(ManifestError, match=r"prepared\.manifest has been changed"):
        verify(out)


def test_large_images_take_turns(originals: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    """And are not held together with others."""
    sizes = originals.sizes().astype(np.int64).prod(axis=1)
    monkeypatch.setattr(pixels, "_LARGE", int(np.sort(sizes)[-3]))
    events: list[object] = []

    class Turn:
        def __enter__(self) -> None:
            events.append("begins")

        def __exit__(self, *_: object) -> None:
            events.append("ends")

    made = pixels.make_images(originals, [], np.arange(13), Turn(), max_pixels=1 << 20)
    for key, image in enumerate(made):
        assert not isinstance(image, DecodeError)
        np.testing.assert_array_equal(image, originals[key].image())
        events.append(key)
    wanted: list[object] = []
    for key, size in enumerate(sizes):
        large = size > np.sort(sizes)[-3]
        wanted += ["begins", key, "ends"] if large else [key]
    assert events == wanted


def test_a_class_may_have_any_name() -> None:
    """Folders differ also where case does not count, and after names end in numbers."""
    names = ["../../etc", "a/b", "a_b", "a_b_1", "Owl", "owl", "CON", "nul.txt", "a?", "end. "]
    names += [".git", "", "x\n", "é" * 200, "\U0001f426" * 200, "Ducks (Male)"]
    folders = class_folders(names)
    assert len({folder.casefold() for folder in folders}) == len(names)
    assert {"CON", "nul.txt", "a?", "end. "}.isdisjoint(folders)
    assert folders[-1] == "Ducks (Male)"
    for folder in folders:
        assert Path(folder).name == folder
        assert not folder.startswith(".")
        assert len(folder.encode()) < 255


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"to": "zip"}, 'to is \'zip\'; it must be one of "files", "tar", "parquet"'),
        ({"to": "raw", "quality": 3}, 'quality is 3, but to is "raw", which writes pixels'),
        ({"image_format": "gif"}, "image_format is 'gif'; it must be one of"),
        ({"image_format": "png", "quality": 5}, "quality is 5, but image_format is 'png'"),
        ({"quality": 0}, "quality is 0; it must be an integer, 1 to 100"),
        ({"image_format": "webp", "subsampling": "4:4:4"}, "subsampling is '4:4:4', but"),
        ({"shard_size": 0}, "shard_size is 0; it must be an integer of 1 or more"),
        ({"max_pixels": 0}, "max_pixels is 0; it must be an integer of 1 or more"),
        ({"workers": 0}, "workers is 0; it must be an integer of 1 or more"),
        ({"on_error": "blank"}, "on_error is 'blank'; it must be one of"),
        ({"transforms": [tf.RandomCrop(8)]}, "RandomCrop, which draws random numbers"),
    ],
)
def test_arguments_out_of_range(
    options: dict[str, Any], text: str, originals: Manifest, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        prepare(originals, tmp_path / "out", **options)
    assert text in str(caught.value)
    assert not (tmp_path / "out").exists()
