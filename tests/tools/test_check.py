"""`gpufeed check` finds what is wrong, and foretells what a run would do."""

from __future__ import annotations

import base64
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image, ImageFile

from gpufeed import DecodeError, Loader, Manifest, ManifestError, SequentialSampler, read_folder
from gpufeed import transforms as tf
from gpufeed.cli import main
from gpufeed.decode.decoders import NvImageCodec
from gpufeed.decode.diagnose import undecodable
from gpufeed.source import FileSource
from gpufeed.tools.check.dataset import Report, check
from gpufeed.tools.check.kinds import KINDS, Problem
from gpufeed.tools.check.page import _thumbnail
from gpufeed.tools.resolve import list_images, open_manifest
from tests.support.media import jpeg, make_manifest, odd_manifest, picture
from tests.support.nabirds_data import IMAGES, course_frame, write_nabirds, write_picture

MAX_PIXELS = 1 << 22


def look(frame: pl.DataFrame, root: Path, **options: int) -> Report:
    return check(frame, root, max_pixels=MAX_PIXELS, progress=False, **options)


def look_at(manifest: Manifest) -> dict[str, list[str]]:
    """The kinds found of each file."""
    found: dict[str, list[str]] = {}
    for row in look(manifest.frame, manifest.root).findings.iter_rows(named=True):
        found.setdefault(row["path"], []).append(row["kind"])
    return found


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1500])


def flip_bits(path: Path) -> None:
    """In the middle of the scan, where libjpeg only warns."""
    content = bytearray(path.read_bytes())
    start = content.index(b"\xff\xda") + 40
    for place in range(start, len(content) - 40, 7):
        content[place] ^= 0x5A
    path.write_bytes(content)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def exif(form: str) -> Callable[[Path], None]:
    def turned(path: Path) -> None:
        told = Image.Exif()
        told[0x0112] = 3
        picture(50, 60, seed=1).save(path, form, exif=told)

    return turned


def xmp(path: Path) -> None:
    """Which a run does not heed, as no decoder but Pillow does."""
    told = b'<x:xmpmeta><a tiff:Orientation="3"/></x:xmpmeta>'
    path.write_bytes(jpeg(picture(50, 60, seed=1), xmp=told))
    with Image.open(path) as image:
        assert image.getexif()[0x0112] == 3


def save(form: str, mode: str = "RGB", size: tuple[int, int] = (50, 60)) -> Callable[[Path], None]:
    def saved(path: Path) -> None:
        picture(*size, seed=1).convert(mode).save(path, form)

    return saved


def lying(path: Path) -> None:
    content = bytearray(path.read_bytes())
    place = content.index(b"\xff\xc0") + 5
    content[place : place + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(content)


def scans(path: Path) -> None:
    whole = jpeg(picture(50, 60, seed=6), progressive=True)
    last = whole.rindex(b"\xff\xda")
    path.write_bytes(whole[:-2] + whole[last:-2] * 399 + b"\xff\xd9")


DAMAGE: dict[str, tuple[Callable[[Path], object], list[Problem]]] = {
    "missing": (Path.unlink, [Problem.missing]),
    "empty": (lambda path: path.write_bytes(b""), [Problem.empty]),
    "pipe": (pipe, [Problem.unreadable]),
    "html": (lambda path: path.write_text("<html>"), [Problem.not_an_image]),
    "cut": (cut, [Problem.damaged]),
    "bits flipped": (flip_bits, [Problem.corrupt]),
    "gif": (save("GIF"), [Problem.not_an_image]),
    "other size": (save("JPEG", size=(40, 60)), [Problem.other_size, Problem.box_outside]),
    "lying": (lying, [Problem.too_large]),
    "scans": (scans, [Problem.not_an_image]),
    "sparse": (lambda path: os.truncate(path, 4 << 30), [Problem.too_large]),
    "far too long": (lambda path: os.truncate(path, 20 << 20), [Problem.too_large]),
    "png": (save("PNG"), [Problem.disguised]),
    "gray": (save("JPEG", "L"), [Problem.colours]),
    "cmyk": (save("JPEG", "CMYK"), [Problem.colours]),
    "turned": (exif("JPEG"), [Problem.turned]),
    "turned by XMP": (xmp, []),
    "turned png": (exif("PNG"), [Problem.disguised, Problem.turned]),
    "turned tiff": (exif("TIFF"), [Problem.disguised, Problem.turned]),
}


@pytest.fixture
def twelve(tmp_path: Path) -> Manifest:
    birds = make_manifest(tmp_path / "birds", [(50, 60)] * 12, boxes=True)
    boxes = birds.frame.with_columns(box_y=pl.lit(0, pl.Int32), box_height=pl.lit(50, pl.Int32))
    return Manifest(boxes, birds.root, birds.classes)


@pytest.mark.parametrize("kind", DAMAGE)
def test_each_kind_of_damage_is_found(twelve: Manifest, kind: str) -> None:
    assert look_at(twelve) == {}
    damage, kinds = DAMAGE[kind]
    damage(twelve.root / "00005.jpg")
    found = look_at(twelve)
    assert sorted(found.pop("00005.jpg", [])) == sorted(kinds)
    assert found == {}


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_said_to_fail_is_what_a_run_fails_over(twelve: Manifest, kind: str) -> None:
    DAMAGE[kind][0](twelve.root / "00005.jpg")
    report = look(twelve.frame, twelve.root)
    assert report.failing == len(fails_of(twelve))


def fails_of(manifest: Manifest) -> set[int]:
    """The records that a run fails over."""
    loader = Loader(
        manifest,
        sampler=SequentialSampler(len(manifest), num_epochs=1),
        transforms=[tf.Resize((8, 8)), tf.ToDtype("uint8")],
        batch_size=1,
        device="cpu",
        num_threads=1,
        max_pixels=MAX_PIXELS,
    )
    with loader:
        while loader.step < len(loader):
            try:
                next(iter(loader))
            except DecodeError:
                loader.skip()
        return set(loader.quarantine.record_keys.tolist())


def test_it_foretells_a_run_over_hundreds_of_odd_files(testdata: Path, tmp_path: Path) -> None:
    manifest = odd_manifest(testdata, tmp_path)
    findings = look(manifest.frame, tmp_path).findings
    said = set(findings.filter("fails")["record_key"].to_list())
    assert said == fails_of(manifest)
    assert 20 < len(said) < len(manifest)


def test_what_a_run_feeds_and_pillow_refuses_is_doubtful(testdata: Path, tmp_path: Path) -> None:
    """Mutated photos: bytes flipped, cut, spliced. Looked at in full, where check looks at less."""
    drawn = np.random.default_rng(7)
    photos = sorted((testdata / "photos").rglob("*.jpg"))[:6]
    small = []
    for path in photos:
        with Image.open(path) as image:
            image.thumbnail((200, 200))
            small.append(jpeg(image.convert("RGB")))
    (tmp_path / "all").mkdir()
    for number in range(300):
        content = bytearray(small[number % len(small)])
        start = content.index(b"\xff\xda") + 14
        if number % 3 == 0:
            for place in drawn.integers(start, len(content), size=int(drawn.integers(1, 9))):
                content[place] ^= 1 << int(drawn.integers(8))
        elif number % 3 == 1:
            content = content[: int(drawn.integers(start, len(content)))]
        else:
            one, other = sorted(drawn.integers(start, len(content), size=2).tolist())
            content[one:other] = content[one:other][::-1]
        (tmp_path / "all" / f"{number:05}.jpg").write_bytes(content)
    manifest = read_folder(tmp_path)
    findings = look(manifest.frame, manifest.root).findings
    run = fails_of(manifest)
    assert set(findings.filter("fails")["record_key"].to_list()) == run
    refused = set()
    for key, name in enumerate(manifest.frame["path"]):
        try:
            with Image.open(tmp_path / name) as image:
                image.load()
        except OSError:
            refused.add(key)
    doubtful = findings.filter(pl.col("kind") == Problem.corrupt.value)["record_key"].to_list()
    assert set(doubtful) == refused - run
    assert len(doubtful) > 20
    assert run <= refused


def test_files_that_come_again_are_told(tmp_path: Path) -> None:
    birds = make_manifest(tmp_path, [(30, 40)] * 4, classes=2)
    for other in (2, 3):
        shutil.copyfile(tmp_path / "00000.jpg", tmp_path / f"{other:05}.jpg")
    frame = birds.frame.with_columns(is_training_img=pl.Series([1, 1, 0, 1]))
    findings = look(frame, tmp_path).findings
    found = findings.select("record_key", "kind").rows()
    # Label 0, 1, 0, 1; record 2 is in the test set.
    assert sorted(found) == [
        (2, "duplicate"),
        (2, "in two splits"),
        (3, "duplicate"),
        (3, "two labels"),
    ]
    assert not findings["fails"].any()
    details = findings["detail"].to_list()
    assert "identical to record 0, 00000.jpg: label 1 here, 0 there" in details
    named = check(frame, tmp_path, classes=["wren", "owl"], progress=False).findings["detail"]
    assert "identical to record 0, 00000.jpg: label owl here, wren there" in named.to_list()


@pytest.mark.parametrize("kind", ["folder", "table", "saved"])
def test_labels_are_named(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    for name in ("owl/1.jpg", "wren/2.jpg"):
        write_picture(tmp_path / "data" / name, (40, 30))
    shutil.copyfile("data/owl/1.jpg", "data/wren/2.jpg")
    pl.DataFrame(
        {"path": ["data/owl/1.jpg", "data/wren/2.jpg"], "label": ["owl", "wren"]}
    ).write_csv("list.csv")
    read_folder(tmp_path / "data").save("list.manifest")
    data = {"folder": "data", "table": "list.csv", "saved": "list.manifest"}[kind]
    assert main(["check", data]) == 0
    assert "label wren here, owl there" in capfd.readouterr().out


@pytest.mark.parametrize("threads", [1, 5])
def test_threads_change_nothing(twelve: Manifest, threads: int) -> None:
    for number, (damage, _) in enumerate(list(DAMAGE.values())[:11]):
        damage(twelve.root / f"{number:05}.jpg")
    wanted = look(twelve.frame, twelve.root, threads=2).findings
    assert look(twelve.frame, twelve.root, threads=threads).findings.equals(wanted)
    ranks = {kind.value: number for number, kind in enumerate(KINDS)}
    order = [ranks[kind] for kind in wanted["kind"]]
    assert order == sorted(order), "the worst first"


def test_real_photos_are_healthy(testdata: Path) -> None:
    photos = sorted((testdata / "photos").rglob("*.jpg"))[::3]
    frame = pl.DataFrame({"path": [str(path.relative_to(testdata)) for path in photos]})
    report = check(frame, testdata, max_pixels=1 << 27, progress=False)
    assert report.images == len(photos)
    assert report.failing == 0


def test_the_command_prints_writes_and_exits(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make_manifest(tmp_path / "data" / "a", [(50, 60)] * 3)
    make_manifest(tmp_path / "data" / "b", [(40, 60)] * 3)
    page, findings = tmp_path / "page.html", tmp_path / "found.parquet"
    command = ["check", str(tmp_path / "data"), "--parquet", str(findings), "--html", str(page)]
    assert main(command) == 0
    said = capfd.readouterr().out
    assert "6 images" in said
    assert "No problems found." in page.read_text()
    assert "<table>" not in page.read_text()
    cut(tmp_path / "data" / "a" / "00001.jpg")
    flip_bits(tmp_path / "data" / "b" / "00001.jpg")
    (tmp_path / "data" / "b" / "00002.jpg").write_text("<script>")
    assert main(command) == 1
    said, noise = capfd.readouterr()
    assert "nvimgcodec" not in noise  # whose lines name no file
    for words in ("damaged", "corrupt data", "not an image", "would fail on 2 images"):
        assert words in said
    assert 'To list these data, use read_folder(..., on_bad_image="drop").\n' in said
    written = page.read_text()
    assert "a/00001.jpg" in written
    assert "<script>" not in written
    picture_of = written.split("base64,")[1].split("'")[0]
    with Image.open(io.BytesIO(base64.b64decode(picture_of))) as image:
        assert image.size == (60, 50)  # what is left of the one that is cut off
    assert written.count("base64,") == 2
    assert not ImageFile.LOAD_TRUNCATED_IMAGES
    manifest = read_folder(tmp_path / "data", on_bad_image="drop").without(findings)
    assert manifest.frame["path"].to_list() == [
        "a/00000.jpg", "a/00002.jpg", "b/00000.jpg", "b/00001.jpg"
    ]  # fmt: skip
    assert fails_of(manifest) == set()


def test_links_out_are_found_and_not_followed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one end the listing; what they lead to is on no page."""
    monkeypatch.setenv("COLUMNS", "300")
    data, findings, page = tmp_path / "data", tmp_path / "found.parquet", tmp_path / "page.html"
    make_manifest(data / "a", [(50, 60)] * 2)
    make_manifest(tmp_path / "outside", [(50, 60)])
    (data / "a" / "out.jpg").symlink_to(tmp_path / "outside" / "00000.jpg")
    (data / "b").symlink_to(tmp_path / "outside")
    assert main(["check", str(data), "--parquet", str(findings), "--html", str(page)]) == 1
    said = capfd.readouterr().out
    assert "4 images" in said
    assert "a symbolic link leads out of the data's folder" in said
    assert f"a/out.jpg: to {tmp_path}/outside/00000.jpg" in said
    assert "A run would" not in said
    assert 'To list these data, use read_folder(..., on_bad_image="drop").\n' in said
    assert pl.read_parquet(findings).filter("fails").select("path", "kind").rows() == [
        ("a/out.jpg", "leads out"), ("b", "leads out")
    ]  # fmt: skip
    assert "base64," not in page.read_text()
    with pytest.warns(UserWarning, match="none of the 2 paths .*; 2 were already dropped when it"):
        manifest = read_folder(data, on_bad_image="drop").without(findings)
    assert manifest.frame["path"].to_list() == ["a/00000.jpg", "a/00001.jpg"]
    assert open_manifest(data, without=findings).frame.equals(manifest.frame)


def test_the_same_image_in_two_splits_of_a_table(tmp_path: Path) -> None:
    manifest = make_manifest(tmp_path, [(50, 60)] * 3)
    frame = manifest.frame.with_columns(path=pl.lit("00000.jpg"), label=0)
    frame = frame.with_columns(split=pl.Series(["train", "train", "val"]))
    found = check(frame, tmp_path, progress=False).findings
    assert found.filter(kind=Problem.twice.value)["record_key"].to_list() == [2]


@pytest.mark.parametrize("name", [b"\xff.jpg", b"\x1b[2J.jpg", b"x" * 250])
def test_what_a_link_leads_to_is_told_printable_and_short(
    name: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make_manifest(tmp_path / "a", [(50, 60)])
    target = b"/nowhere" + (b"/" + name) * (15 if len(name) > 99 else 1)
    (tmp_path / "a" / "out.jpg").symlink_to(os.fsdecode(target))
    assert main(["check", str(tmp_path)]) == 1
    said, noise = capfd.readouterr()
    assert noise == ""
    assert "a/out.jpg: to" in said
    assert "\x1b" not in said
    assert len(said) < 2000


@pytest.mark.parametrize("cleaned", [True, False])
def test_nabirds_is_listed_whatever_its_pictures_are(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], cleaned: bool
) -> None:
    """The course's cleaned images too, whose sizes stand in no list."""
    course = tmp_path / "course"
    course.mkdir()
    frame = course_frame(write_nabirds(tmp_path / "birds"))
    frame.write_parquet(course / "metadata.parquet")
    images = course / ("cleaned_images" if cleaned else "images")
    paths = pl.read_parquet(course / "metadata.parquet")["path"].to_list()
    for path, (_, _, size, *_) in zip(paths, IMAGES, strict=True):
        write_picture(images / path, (269, 269) if cleaned else size)
    assert main(["check", str(course)]) == 0
    (images / paths[1]).write_bytes(b"")
    (images / paths[2]).unlink()
    findings = tmp_path / "found.parquet"
    capfd.readouterr()
    assert main(["check", str(course), "--parquet", str(findings)]) == 1
    said = capfd.readouterr().out
    assert ('To list these data, use read_nabirds(..., on_bad_image="drop").' in said) == cleaned
    found = pl.read_parquet(findings).filter("fails")
    assert sorted(found.select("record_key", "kind").rows()) == [(1, "empty"), (2, "missing")]
    assert "A run would fail on 2 images" in said
    left = open_manifest(course, without=findings)
    assert left.frame["path"].to_list() == [paths[0], paths[3]]
    assert fails_of(left) == set()
    (images / paths[2]).symlink_to("/etc/hostname")
    with pytest.raises(ManifestError, match="through a symbolic link"):
        open_manifest(course)
    assert main(["check", str(course), "--parquet", str(findings)]) == 1
    said = capfd.readouterr().out
    assert "A run would fail on 1 image," in said
    assert 'To list these data, use read_nabirds(..., on_bad_image="drop").' in said
    found = pl.read_parquet(findings).filter("fails")
    assert sorted(found.select("record_key", "kind").rows()) == [(1, "empty"), (2, "leads out")]
    left = open_manifest(course, without=findings)
    assert left.frame["path"].to_list() == [paths[0], paths[3]]
    # A list that cannot be right is not gone through.
    box = pl.when(pl.col("path") == paths[3]).then(0).otherwise("bb_width").alias("bb_width")
    frame.with_columns(box).write_parquet(course / "metadata.parquet")
    assert main(["check", str(course)]) == 2
    assert "metadata.parquet, row 3: the box 1 2 0 4" in capfd.readouterr().err


def test_boxes_are_looked_at_as_a_run_has_them(tmp_path: Path) -> None:
    """Cut to the image; one of them is listed as reaching out."""
    course = tmp_path / "course"
    course.mkdir()
    course_frame(write_nabirds(tmp_path / "birds")).write_parquet(course / "metadata.parquet")
    for path, (_, _, size, *_) in zip(
        pl.read_parquet(course / "metadata.parquet")["path"], IMAGES, strict=True
    ):
        write_picture(course / "images" / path, size)
    pictures = list_images(course)
    found = look(pictures.frame, pictures.source).findings
    assert set(found["kind"]) <= {"duplicate", "two labels", "in two splits"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "there is no file or folder nowhere"),
        (["pipe"], "pipe is neither a file nor a folder"),
        ([".", "--parquet", "/proc/x/x.parquet"], "cannot write /proc/x/x.parquet: No such file"),
        ([".", "--html", "."], "cannot write .: it is a folder; name a file"),
        ([".", "--html", "x.html", "--parquet", "x.html"], "x.html: its name must end in .parquet"),
        ([".", "--parquet", "x.csv"], "x.csv: its name must end in .parquet"),
        ([".", "--html", "x"], "cannot write x: its name must end in .html"),
        ([".", "--threads", "0"], "--threads"),
    ],
)
def test_wrong_use_is_one_line(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    assert main(["check", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_what_is_left_of_a_picture_is_shown_upright(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    picture(200, 400, seed=1).save(tmp_path / "whole.jpg", exif=turned)
    content = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(content[: len(content) // 2])
    sizes = []
    for name in ("whole.jpg", "cut.jpg"):
        shown = _thumbnail(FileSource(tmp_path, pl.Series([name])), 0, NvImageCodec())
        assert shown is not None
        with Image.open(io.BytesIO(base64.b64decode(shown))) as image:
            sizes.append(image.size)
    assert sizes == [(80, 160)] * 2


def lying_twice(side: int) -> bytes:
    content = jpeg(picture(64, 64, seed=1))
    at = content.index(b"\xff\xc0")
    end = at + 2 + int.from_bytes(content[at + 2 : at + 4], "big")
    large = content[at : at + 5] + side.to_bytes(2, "big") * 2 + content[at + 9 : end]
    return content[:end] + large + content[end:]


def test_a_size_that_lies_twice_is_not_shown(tmp_path: Path) -> None:
    """Pillow goes by the second header, and would take memory for that."""
    (tmp_path / "lies.jpg").write_bytes(lying_twice(13_000))
    assert _thumbnail(FileSource(tmp_path, pl.Series(["lies.jpg"])), 0, NvImageCodec()) is None


@pytest.mark.parametrize(
    ("side", "said"),
    [
        (9_000, "a header gives the size 64 x 64 (width x height), and another 9000 x 9000"),
        (13_000, "too large for Pillow"),  # where Pillow warns, which is an error here
    ],
)
def test_pillow_does_not_load_a_size_that_lies_twice(
    side: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: object) -> None:
        raise AssertionError("Pillow allocates memory for the second size")

    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    assert said in undecodable(lying_twice(side), 0, str).reason
    (tmp_path / "lies.jpg").write_bytes(lying_twice(9_000))
    (found,) = look(pl.DataFrame({"path": ["lies.jpg"]}), tmp_path).findings["detail"]
    assert "and another 9000 x 9000" in found
