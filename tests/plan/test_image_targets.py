"""Masks and depth maps: each pixel is where its image's pixel is, and values are the file's."""

from __future__ import annotations

import contextlib
import io
import re
import struct
import threading
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import gpufeed
from gpufeed import ConfigError, DecodeError, Depth, Loader, Manifest, ManifestError, Mask
from gpufeed import transforms as tf
from gpufeed.cli import main
from gpufeed.decode.values import decode_values
from gpufeed.plan.lookup import Lookup
from gpufeed.sheets.draw_targets import draw_map
from gpufeed.source import timeout
from gpufeed.tools.check.dataset import check
from gpufeed.transforms.frame import Frame, Warp
from tests.support.hanging import HangingClock
from tests.support.media import TURNS, jpeg, picture

SIZES = [(60, 45), (45, 65), (55, 55), (32, 75)]
UINT8 = tf.ToDtype("uint8", layout="NHWC")


def png(values: np.ndarray | Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    image = values if isinstance(values, Image.Image) else Image.fromarray(values)
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def write(
    folder: Path, masks: list[bytes], sizes: Sequence[tuple[int, ...]], grey: Any = None
) -> Manifest:
    """List images, of these pixels or any, with the column `mask`."""
    for number, (mask, size) in enumerate(zip(masks, sizes, strict=True)):
        height, width = size
        image = picture(height, width, number)
        if grey is not None:
            image = Image.fromarray(grey[number]).convert("RGB")
        image.save(folder / f"{number}.png")
        (folder / f"{number}.mask.png").write_bytes(mask)
    return gpufeed.read_table(
        {
            "path": [f"{number}.png" for number in range(len(masks))],
            "mask": [f"{number}.mask.png" for number in range(len(masks))],
            "label": [number % 2 for number in range(len(masks))],
        },
        root=folder,
    )


def make(manifest: Manifest, steps: Any, *targets: Any, seed: int = 0, **options: Any) -> Loader:
    settled = {
        "sampler": gpufeed.SequentialSampler(len(manifest), seed=seed),
        "batch_size": len(manifest),
        "device": "cpu",
        "num_threads": 2,
    }
    return Loader(manifest, transforms=steps, targets=targets, **{**settled, **options})


def feed(manifest: Manifest, steps: Any, *targets: Any, **options: Any) -> Any:
    """One batch of all."""
    with make(manifest, steps, *targets, **options) as loader:
        return loader.batch(0)


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Images that are their own masks, of 0 and 200."""
    drawn = np.random.default_rng(0)
    values = [(drawn.random(size) < 0.5).astype(np.uint8) * 200 for size in SIZES]
    masks = [png(each) for each in values]
    return write(tmp_path_factory.mktemp("alike"), masks, SIZES, values)


# ------------------------------------------------------------------- where pixels come from

MOVES = st.one_of(
    st.builds(tf.RandomCrop, st.integers(20, 50), st.integers(0, 9), st.just(True)),
    st.builds(tf.CenterCrop, st.integers(20, 80)),
    st.builds(tf.Pad, st.tuples(*[st.integers(0, 9)] * 4)),
    st.builds(tf.RandomHorizontalFlip),
    st.builds(tf.RandomVerticalFlip),
    st.builds(tf.RandomZoomOut, side_range=st.just((1.0, 1.4))),
)
WARPS = st.one_of(
    # No quarter turns: of sides of which one is odd, all points lie on borders of pixels.
    st.builds(tf.RandomRotation, st.just((-170, 175)), expand=st.booleans()),
    st.builds(
        tf.RandomAffine,
        st.integers(0, 45),
        translate=st.just((0.2, 0.2)),
        scale=st.just((0.8, 1.3)),
        shear=st.just((-10, 10, -10, 10)),
    ),
    st.builds(tf.RandomPerspective, st.just(0.4), interpolation=st.just("nearest")),
)
RESIZES = st.one_of(
    st.builds(tf.RandomResizedCrop, st.integers(10, 90), scale=st.just((0.3, 1.0))),
    st.builds(tf.Resize, st.integers(10, 90)),
    st.builds(tf.Resize, st.tuples(st.integers(10, 90), st.integers(10, 90))),
    st.builds(tf.RandomResize, st.integers(10, 30), st.integers(31, 90)),
    st.builds(tf.ScaleJitter, st.tuples(*[st.integers(20, 90)] * 2), st.just((0.5, 2.0))),
)


SOME = st.lists(MOVES, max_size=2)


@settings(max_examples=40)
@given(SOME, st.lists(WARPS, max_size=1), SOME, st.integers(0, 2**32))
def test_a_mask_moves_as_the_pixels_of_its_image(
    alike: Manifest, before: list[Any], turned: list[Any], after: list[Any], seed: int
) -> None:
    """Exactly; of a warp, points on the border of two pixels may fall to either."""
    chain = [*before, *turned, *after, tf.RandomCrop(40, pad_if_needed=True), UINT8]
    batch = feed(alike, chain, Mask("mask", fill=0), seed=seed)
    differ = batch["image"][..., 0] != batch["mask"]
    assert differ.mean() <= 0.002 * len(turned)
    assert set(np.unique(batch["mask"])) <= {0, 200}


@settings(max_examples=60)
@given(st.lists(MOVES | RESIZES, min_size=1, max_size=5), st.integers(0, 2**32))
def test_the_pixel_that_is_looked_up_lies_there(
    numbered: Manifest, steps: list[Any], seed: int
) -> None:
    """Forward again, its square has the centre of the pixel that it went to."""
    chain = [*steps, tf.RandomCrop(40, pad_if_needed=True), UINT8]
    with make(numbered, chain, Mask("mask", fill=-1, dtype="int32"), Where(), seed=seed) as loader:
        batch = loader.batch(0)
    for place, mask in enumerate(batch["mask"]):
        y, x = np.nonzero(mask >= 0)
        if not len(y):
            continue
        row, column = np.divmod(mask[y, x], SIZES[place][1])
        corners = np.stack([column, row], axis=1)[None].astype(np.float64)
        frame = Where.frame.take(slice(place, place + 1))
        ends = np.stack([frame.map_points(corners), frame.map_points(corners + 1)])[:, 0]
        centre = np.stack([x, y], axis=1) + 0.5
        assert (ends.min(axis=0) <= centre + 1e-4).all()
        assert (ends.max(axis=0) >= centre - 1e-4).all()
        assert frame.shows(corners + 0.5).mean() > 0.5


class Where(gpufeed.Field):
    """Keeps the frame of the batch."""

    name = "where"
    moves = True
    frame: Frame

    def bind(self, _: Manifest) -> Any:
        def values(keys: Any, frame: Frame) -> Any:
            Where.frame = frame
            return keys

        return values


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """With masks that number the pixels."""
    masks = [png(np.arange(h * w, dtype=np.uint16).reshape(h, w)) for h, w in SIZES]
    return write(tmp_path_factory.mktemp("numbered"), masks, SIZES)


@settings(max_examples=150)
@given(*[st.integers(1, 60)] * 4)
def test_a_resize_is_torchs_nearest_exact(height: int, width: int, to_h: int, to_w: int) -> None:
    """Which torchvision's masks have with InterpolationMode.NEAREST_EXACT.

    torch computes in single precision, so a point on the border of two pixels may fall to either.
    """
    values = np.arange(height * width).reshape(height, width)
    frame = Frame.whole(np.array([[height, width]])).resize(to_h, to_w, "bilinear")
    ours = np.empty((to_h, to_w), np.int64)
    assert Lookup(frame)(0, values, ours, "nearest").all()
    given = torch.from_numpy(values.astype(np.float64))[None, None]
    theirs = torch.nn.functional.interpolate(given, (to_h, to_w), mode="nearest-exact")
    rows, columns = (np.divmod(each, width) for each in (ours, theirs[0, 0].numpy().astype(int)))
    for axis, (old, new) in enumerate(((height, to_h), (width, to_w))):
        border = (2 * np.arange(new) + 1) * old % (2 * new) == 0
        same = rows[axis] == columns[axis]
        assert same[~border].all() if axis == 0 else same[:, ~border].all()


@settings(max_examples=60)
@given(*[st.integers(1, 40)] * 4)
def test_a_bilinear_resize_is_torchs(height: int, width: int, to_h: int, to_w: int) -> None:
    values = np.random.default_rng(height).random((height, width)).astype(np.float32)
    frame = Frame.whole(np.array([[height, width]])).resize(to_h, to_w, "bilinear")
    ours = np.empty((to_h, to_w), np.float32)
    Lookup(frame)(0, values, ours, "bilinear")
    given = torch.from_numpy(values)[None, None]
    theirs = torch.nn.functional.interpolate(given, (to_h, to_w), mode="bilinear")
    np.testing.assert_allclose(ours, theirs[0, 0].numpy(), atol=1e-5)


@pytest.mark.parametrize("row", [[1.0, 0, 0], [1, 0, -2.5]])
def test_a_point_at_infinity_is_outside(row: list[float]) -> None:
    """Where a perspective divides by zero, as in the column whose centre is at 2.5."""
    matrix = np.array([[row, [0, 1, 0], [1, 0, -2.5]]])
    warp = Warp(matrix, np.array([True]), "nearest", (0.0, 0.0, 0.0))
    lookup = Lookup(Frame.whole(np.array([[6, 6]])).warp(warp))
    values = np.arange(36).reshape(6, 6)
    for sampling in ("nearest", "bilinear"):
        shown = lookup(0, values, np.empty((6, 6)), sampling)
        assert not shown[:, 2].any()
        assert shown[1, 3]


def test_each_view_has_its_own(alike: Manifest) -> None:
    views = gpufeed.Views([[tf.CenterCrop(30)], [tf.RandomVerticalFlip(1.0), tf.CenterCrop(20)]])
    batch = feed(alike, views, Mask("mask", fill=0))
    assert [each.shape for each in batch["mask"]] == [(4, 30, 30), (4, 20, 20)]
    for image, mask in zip(batch["image"], batch["mask"], strict=True):
        np.testing.assert_array_equal(image[:, 0], mask)
    with make(alike, views, Mask("mask", fill=0)) as loader:
        record = loader.record(2)
        assert [each.shape for each in record["mask"]] == [(30, 30), (20, 20)]
        loader.show(record)


# -------------------------------------------------------------------------------- values

VALUES = np.random.default_rng(1).integers(0, 256, (9, 14)).astype(np.uint8)


def palette(values: np.ndarray) -> Image.Image:
    image = Image.fromarray(values, "P")
    image.putpalette(np.random.default_rng(2).bytes(768))
    return image


FILES: dict[str, Callable[[], tuple[bytes, np.ndarray]]] = {
    "grey": lambda: (png(VALUES), VALUES),
    "grey BMP": lambda: (png(VALUES, "BMP"), VALUES),
    "grey PGM": lambda: (png(VALUES, "PPM"), VALUES),
    "grey TIFF": lambda: (png(VALUES, "TIFF", compression="tiff_lzw"), VALUES),
    "palette": lambda: (png(palette(VALUES)), VALUES),
    "palette of 2 bits": lambda: (png(palette(VALUES % 4), bits=2), VALUES % 4),
    "palette TIFF": lambda: (png(palette(VALUES), "TIFF"), VALUES),
    "1 bit": lambda: (png(Image.fromarray(VALUES > 99)), VALUES > 99),
    "1 bit TIFF": lambda: (png(Image.fromarray(VALUES > 99), "TIFF"), VALUES > 99),
    "16 bits": lambda: (png(VALUES * np.uint16(257)), VALUES * np.uint16(257)),
    "16 bits TIFF": lambda: (png(VALUES * np.uint16(99), "TIFF"), VALUES * np.uint16(99)),
}


@pytest.mark.parametrize("name", FILES)
def test_values_are_the_files(name: str, tmp_path: Path) -> None:
    content, values = FILES[name]()
    manifest = write(tmp_path, [content], [VALUES.shape])
    targets = Mask("mask", dtype="int32"), Depth("depth", column="mask", scale=0.5)
    batch = feed(manifest, [], *targets)
    assert batch["mask"].dtype == np.int32
    np.testing.assert_array_equal(batch["mask"][0], values)
    assert batch["depth"].dtype == np.float32
    np.testing.assert_array_equal(batch["depth"][0], values * np.float32(0.5))
    if values.max() <= 255:
        assert feed(manifest, [], Mask("mask"))["mask"].dtype == np.uint8


def test_floating_point_depth_is_the_files(tmp_path: Path) -> None:
    values = np.random.default_rng(3).normal(size=(9, 14)).astype(np.float32)
    manifest = write(tmp_path, [png(values, "TIFF")], [(9, 14)])
    np.testing.assert_array_equal(feed(manifest, [], Depth("mask"))["mask"][0], values)
    with pytest.raises(DecodeError, match="floating-point numbers, and a mask has integers"):
        feed(manifest, [], Mask("mask"))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF"])
@pytest.mark.parametrize("turn", TURNS)
def test_masks_are_turned_upright(kind: str, turn: int, tmp_path: Path) -> None:
    smooth = np.asarray(picture(40, 56, 1).convert("L"))
    exif = Image.Exif()
    exif[0x0112] = turn
    wanted = Image.fromarray(smooth).transpose(TURNS[turn])
    manifest = write(tmp_path, [png(smooth, kind, exif=exif)], [(wanted.height, wanted.width)])
    found = feed(manifest, [], Mask("mask"))["mask"][0]
    apart = np.abs(found.astype(int) - np.asarray(wanted))
    assert apart.max() <= (40 if kind == "JPEG" else 0)
    assert apart.mean() < 3


def test_frameworks_get_their_own_arrays(alike: Manifest) -> None:
    targets = Mask("mask"), Mask("wide", column="mask", dtype="int32"), Depth("d", column="mask")
    plain = feed(alike, [tf.CenterCrop(30)], *targets)
    for framework in ("torch", "jax"):
        batch = feed(alike, [tf.CenterCrop(30)], *targets, framework=framework)
        wide = "torch.int64" if framework == "torch" else "int32"
        kinds = [str(batch[name].dtype).removeprefix("torch.") for name in ("mask", "wide", "d")]
        assert kinds == ["uint8", wide.removeprefix("torch."), "float32"]
        for name in ("mask", "wide", "d"):
            np.testing.assert_array_equal(np.asarray(batch[name]), plain[name])


def test_padding_has_the_fill(alike: Manifest) -> None:
    steps = [tf.CenterCrop(32), tf.Pad(5, fill=9)]
    targets = Mask("mask"), Mask("other", column="mask", fill=3), Depth("far", column="mask")
    batch = feed(alike, steps, *targets, Depth("d", column="mask", fill=-1, scale=7))
    border = np.ones((42, 42), bool)
    border[5:-5, 5:-5] = False
    for name, fill in (("mask", 255), ("other", 3), ("far", 0), ("d", -1)):
        assert (batch[name][:, border] == fill).all()
    assert set(np.unique(batch["mask"][:, ~border])) == {0, 200}


# ------------------------------------------------------------------------ runs and bad masks

COUNT = 12


@pytest.fixture
def many(tmp_path: Path) -> Manifest:
    masks = [png(np.full((30, 40), number, np.uint8)) for number in range(COUNT)]
    return write(tmp_path, masks, [(30, 40)] * COUNT)


def run(manifest: Manifest, *targets: Any, **options: Any) -> Loader:
    settled = {
        "sampler": gpufeed.IndexSampler(len(manifest), shuffle=True, seed=3),
        "batch_size": 4,
        **options,
    }
    steps = [tf.RandomResizedCrop(16), tf.RandomHorizontalFlip(), UINT8]
    return make(manifest, steps, *(targets or [Mask("mask")]), **settled)


def test_masks_belong_to_their_records(many: Manifest) -> None:
    with run(many) as loader:
        batches = [*loader, *loader]
        for step in (5, 1):
            np.testing.assert_array_equal(loader.batch(step)["mask"], batches[step]["mask"])
    assert len(batches) == 6
    for batch in batches:
        assert (batch["mask"] == batch["record_key"][:, None, None]).all()


def test_a_record_has_several_masks_of_its_own(many: Manifest) -> None:
    twice = [png(np.full((30, 40), 2 * number, np.uint8)) for number in range(COUNT)]
    with run(many, Mask("mask"), Mask("twice", source=gpufeed.MemorySource(twice))) as loader:
        for batch in loader:
            assert (batch["mask"] == batch["record_key"][:, None, None]).all()
            assert (batch["twice"] == 2 * batch["mask"]).all()


def test_targets_change_no_pixel(many: Manifest) -> None:
    steps = [tf.RandomResizedCrop(16), tf.RandomHorizontalFlip(), UINT8]
    order = {"sampler": gpufeed.IndexSampler(COUNT, shuffle=True, seed=3), "batch_size": 4}
    with run(many) as loader, make(many, steps, **order) as plain:
        for one, other in zip(loader, plain, strict=True):
            np.testing.assert_array_equal(one["image"], other["image"])
        assert loader.state_dict() == plain.state_dict()


def test_the_cache_keeps_images_and_masks_still_come(many: Manifest) -> None:
    with run(many) as loader, run(many, cache="host") as cached:
        for _ in range(2):
            for one, other in zip(loader, cached, strict=True):
                np.testing.assert_array_equal(one["image"], other["image"])
                np.testing.assert_array_equal(one["mask"], other["mask"])


def two_headers() -> bytes:
    """A PNG of the image's size, with a second header of another, which Pillow follows."""
    small, large = png(np.zeros((30, 40), np.uint8)), png(np.zeros((3000, 4000), np.uint8))
    return small[:33] + large[8:]


BAD: dict[int, tuple[bytes | None, str]] = {
    1: (None, "mask: cannot be read: No such file or directory"),
    4: (b"<html>", "mask: not a readable image: not a JPEG, PNG"),
    5: (png(np.full((30, 40), 5, np.uint8))[:-30], "mask: it is damaged"),
    3: (two_headers(), "mask: it is 4000 x 3000"),
    6: (png(np.zeros((40, 30), np.uint8)), r"mask: it is 30 x 40 \(width x height\), but its ima"),
    7: (jpeg(picture(30, 40, 1)), "mask: it has the channels RGB, and must have one"),
    9: (png(np.full((30, 40), 300, np.uint16)), 'mask: it has the value 300, .*dtype="int32"'),
}


def spoil(manifest: Manifest, keys: Any = BAD) -> None:
    for key in keys:
        path, content = manifest.root / f"{key}.mask.png", BAD[key][0]
        path.unlink() if content is None else path.write_bytes(content)


@pytest.mark.parametrize("key", BAD)
def test_a_bad_mask_is_named(many: Manifest, key: int) -> None:
    spoil(many, [key])
    with run(many, sampler=[key], batch_size=1) as loader:
        with pytest.raises(DecodeError, match=BAD[key][1]) as caught:
            loader.batch(0)
        assert caught.value.record_key == key
        assert caught.value.path == str(many.root / f"{key}.mask.png")
    with run(many, sampler=[key], batch_size=1, on_error="blank", max_failures=1.0) as loader:
        (batch,) = loader
        assert not batch["valid"].any()
        assert (batch["mask"] == 255).all()


def test_check_finds_what_a_run_fails_over(many: Manifest) -> None:
    """With the mask's path and the run's reason; an image may be bad as well."""
    spoil(many)
    (many.root / "8.png").unlink()
    (many.root / "8.mask.png").unlink()
    (many.root / "10.png").write_bytes(b"no image")
    with run(many, on_error="substitute", max_failures=1.0) as loader:
        list(loader)
        failed = loader.quarantine.frame()
    options: Any = {"progress": False, "targets": [Mask("mask"), Depth("d", column="mask")]}
    for frame in (many.frame, many.frame.drop("width", "height")):
        report = check(frame, many.source, **options)
        assert report.failing == len(failed) == len(BAD) + 2
        found = report.findings.filter(kind="bad mask or map", path="5.png")["detail"].to_list()
        (reason,) = failed.filter(path="5.png")["reason"]
        name = many.root / "5.mask.png"
        assert found == [f"{name}: {reason}", f"{name}: d{reason.removeprefix('mask')}"]
        said = [reason for _, reason in BAD.values()]
        said[-1] = "which does not fit in uint8"  # fits a depth map
        details = report.findings.filter(pl.col("detail").str.contains(": mask: "))["detail"]
        assert len(details) == len(BAD) + 1  # 8 has neither image nor mask
        for reason in said:
            assert any(re.search(reason, detail) for detail in details)
    assert check(many.frame, many.source, progress=False).failing == 2
    many.frame.select("path", "mask").write_csv(many.root / "list.csv")
    command = ["check", str(many.root / "list.csv"), "--mask", "mask", "--parquet"]
    assert main([*command, str(many.root / "bad.parquet")]) == 1
    assert len(many.without(many.root / "bad.parquet")) == COUNT - len(failed)
    assert main([*command[:-1], "--depth", "nothing"]) == 2
    assert main(["check", str(many.root / "list.csv")]) == 1


def test_check_finds_records_without_a_mask(many: Manifest) -> None:
    """Which a loader refuses altogether, until they are left out."""
    table, bad = many.root / "list.csv", many.root / "bad.parquet"
    mask = pl.when(pl.col("path") != "3.png").then("mask").alias("mask")
    many.frame.select("path", mask).write_csv(table)
    assert main(["check", str(table), "--mask", "mask", "--parquet", str(bad)]) == 1
    (detail,) = pl.read_parquet(bad).filter(pl.col("fails"), path="3.png")["detail"]
    assert detail.endswith("(the cell is empty): mask: cannot be read: No such file or directory")
    read = gpufeed.read_table(table, label=None)
    with pytest.raises(ConfigError, match=r"with 1 nulls; .*; leave out rows that have none"):
        run(read)
    run(read.without(bad)).close()


def test_check_reads_masks_of_any_kind(many: Manifest) -> None:
    masks = gpufeed.MemorySource(np.full((COUNT, 30, 40), 300, np.uint16))
    for target, failing in ((Mask("m", source=masks), COUNT), (Depth("m", source=masks), 0)):
        assert check(many.frame, many.source, targets=[target], progress=False).failing == failing
    with pytest.raises(ConfigError, match=r"no column 'm', only .*'mask'.*; name the column of"):
        check(many.frame, many.source, targets=[Mask("m")], progress=False)


def test_failures_name_the_mask_that_is_bad(many: Manifest) -> None:
    """Those of a state as well."""
    spoil(many, [4])
    (many.root / "7.png").unlink()
    paths = [str(many.root / "4.mask.png"), str(many.root / "7.png")]
    options: Any = {"sampler": [7, 4, 0], "batch_size": 1, "on_error": "blank"}
    with run(many, max_failures=2, **options) as loader:
        list(loader)
        state = loader.state_dict()
        rows = loader.quarantine.frame().select("record_key", "path", "target_file").rows()
    assert rows == [(7, "7.png", ""), (4, "4.png", paths[0])]
    with run(many, max_failures=1, **options) as loader:
        loader.load_state_dict(state)
        loader.seek(0)
        with pytest.raises(gpufeed.TooManyFailuresError) as caught:
            list(loader)
    assert [failure.path for failure in caught.value.failures] == [paths[1], paths[0]]
    assert f"PNM image; it begins with b'<html>' (first record 4, {paths[0]})" in str(caught.value)
    assert "directory (first record 7, 7.png)" in str(caught.value)


@pytest.mark.parametrize("opener", ["threads", "graph"])
def test_only_the_place_of_a_bad_mask_differs(many: Manifest, opener: str) -> None:
    """Also where other records' images are bad: of those, the graph finds some too late."""
    with run(many, opener=opener) as loader:
        healthy = [*loader, *loader]
    spoil(many)
    (many.root / "3.png").unlink()
    cut = (many.root / "2.png").read_bytes()
    (many.root / "2.png").write_bytes(cut[: len(cut) * 2 // 3])
    bad = {2, 3, *BAD}
    with run(many, opener=opener, on_error="substitute", max_failures=1.0) as loader:
        mended = [*loader, *loader]
        assert set(loader.quarantine.record_keys) == bad
        reasons = {failure.record_key: failure.reason for failure in loader.quarantine}
        assert reasons[1] == BAD[1][1]
    for before, after in zip(healthy, mended, strict=True):
        good = ~np.isin(before["record_key"], list(bad))
        np.testing.assert_array_equal(before["image"][good], after["image"][good])
        assert (after["record_key"][good] == before["record_key"][good]).all()
        assert not np.isin(after["record_key"], list(bad)).any()
        assert (after["mask"] == after["record_key"][:, None, None]).all()


class Slow:
    """Masks, one of which is not answered before it is let go."""

    def __init__(self, masks: list[bytes]) -> None:
        self.masks = masks
        self.free = threading.Event()

    def read(self, keys: Any) -> list[bytes]:
        assert 7 not in keys or self.free.wait(60)
        return [self.masks[key] for key in keys]

    def name(self, key: int) -> str:
        return f"slow {key}"


def test_a_mask_that_does_not_come_counts_as_bad(
    many: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Masks are read as images that come after all others.
    monkeypatch.setattr(timeout, "time", HangingClock(lambda key: key == len(many) + 7))
    source = Slow([png(np.full((30, 40), number, np.uint8)) for number in range(COUNT)])
    mask = Mask("own", source=source)
    with run(many, mask, read_timeout=0.2, on_error="substitute", max_failures=1) as loader:
        keys = np.concatenate([batch["record_key"] for batch in loader])
        assert 7 not in keys
        (failure,) = loader.quarantine
    source.free.set()
    assert failure.record_key == 7
    assert failure.reason == "own: cannot be read: no answer within 0.2 s"


# ------------------------------------------------------------------------- where they are


def test_masks_may_lie_beside_images_by_name(many: Manifest, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for number in range(COUNT):
        (tmp_path / f"{number}.mask.png").rename(tmp_path / "sub" / f"{number}.tif")
    mask = Mask("m", column="path", root=tmp_path / "sub", suffix=".tif")
    with run(many.take([5, 2, 9, 7]), mask, sampler=[0, 1, 2, 3]) as loader:
        assert loader.batch(0)["m"][:, 0, 0].tolist() == [5, 2, 9, 7]


def filled(folder: Path, value: int) -> Manifest:
    """Two images, with masks of this value."""
    folder.mkdir(exist_ok=True, parents=True)
    return write(folder, [png(np.full((30, 40), value, np.uint8))] * 2, [(30, 40)] * 2)


def test_masks_of_joined_manifests_are_their_own(tmp_path: Path) -> None:
    """Where paths are the same below different roots, one of which is above the other."""
    top, sub, far = (
        filled(tmp_path / "d", 1),
        filled(tmp_path / "d/s", 2),
        filled(tmp_path / "f", 3),
    )
    paths = [str(sub.root / name) for name in sub.frame["mask"]]
    absolute = Manifest(sub.frame.with_columns(mask=pl.Series(paths)), sub.root, sub.classes)
    both = gpufeed.concat([top, sub])
    assert both.frame["source_root"].to_list() == ["", "", "s/", "s/"]
    mine = Manifest(top.frame.with_columns(source_root=pl.lit("x")), top.root, top.classes)
    assert gpufeed.concat([mine, mine]).frame.equals(
        mine.frame[[0, 1, 0, 1]].with_columns(source=pl.Series([0, 0, 1, 1], dtype=pl.Int32))
    )
    assert feed(mine, [], Mask("mask"))["mask"][:, 0, 0].tolist() == [1, 1]
    all_of_them = gpufeed.concat([both, far, gpufeed.concat([top])])
    all_of_them.save(tmp_path / "all.manifest")
    for manifest, wanted in (
        (both, [1, 1, 2, 2]),
        (gpufeed.concat([sub, sub]), [2, 2, 2, 2]),
        (all_of_them, [1, 1, 2, 2, 3, 3, 1, 1]),
        (gpufeed.read_manifest(tmp_path / "all.manifest").take([2, 6, 5]), [2, 1, 3]),
        (gpufeed.concat([absolute, absolute, far]).take([0, 2]), [2, 2]),
    ):
        assert feed(manifest, [], Mask("mask"))["mask"][:, 0, 0].tolist() == wanted
    # The column of images leads from the common root already, and `root` is one for all.
    beside = Mask("mask", column="path", suffix=".mask.png")
    assert feed(both, [], beside)["mask"][:, 0, 0].tolist() == [1, 1, 2, 2]
    given = Mask("mask", root=far.root)
    assert feed(both, [], given)["mask"][:, 0, 0].tolist() == [3] * 4
    with pytest.raises(ManifestError, match=r"is relative, but row . of column 'mask' has an ab"):
        feed(gpufeed.concat([top, absolute]), [], Mask("mask"))


def test_masks_may_have_absolute_paths(many: Manifest) -> None:
    paths = [str(many.root / name) for name in many.frame["mask"]]
    frame = many.frame.with_columns(pl.Series("mask", paths))
    (many.root / "images").mkdir()
    moved = Manifest(frame, many.source, many.classes)
    with run(moved) as loader:
        batch = loader.batch(0)
        assert (batch["mask"] == batch["record_key"][:, None, None]).all()


def test_damage_is_a_value_error_whatever_pillow_makes_of_it() -> None:
    """Such as a TypeError, where text stands for the image's width."""
    whole = png(np.zeros((30, 40), np.uint8), "TIFF")
    for place in range(8, 200):
        for byte in (2, 5, 7):
            damaged = whole[:place] + bytes([byte]) + whole[place + 1 :]
            with contextlib.suppress(ValueError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert decode_values(damaged, (30, 40)).shape == (30, 40)


def test_a_mask_that_is_too_large_for_pillow_is_not_called_damaged() -> None:
    for side in (11_000, 20_000):  # where Pillow warns, which is an error here, and raises
        head = png(np.zeros((3, 3), np.uint8))
        chunk = head[12:16] + struct.pack(">II", side, side) + head[24:29]
        large = head[:12] + chunk + struct.pack(">I", zlib.crc32(chunk)) + head[33:]
        with pytest.raises(ValueError, match=r"^it is too large for Pillow$"):
            decode_values(large, (side, side))


def test_masks_of_a_source_follow_a_column_of_keys(many: Manifest) -> None:
    masks = [png(np.full((30, 40), number, np.uint8)) for number in range(COUNT)]
    mask = Mask("m", source=gpufeed.MemorySource(masks))
    with run(many, mask) as loader:
        batch = loader.batch(0)
        assert (batch["m"] == batch["record_key"][:, None, None]).all()
    # Of pixels in memory as well: grey ones, which sources hand over as RGB.
    grey = gpufeed.MemorySource([np.full((30, 40), number, np.uint8) for number in range(COUNT)])
    with run(many, Mask("m", source=grey)) as loader:
        assert (loader.batch(0)["m"] == batch["m"]).all()
    colours = gpufeed.MemorySource([np.asarray(picture(30, 40, 0))] * COUNT)
    with (
        run(many, Mask("m", source=colours)) as loader,
        pytest.raises(DecodeError, match="m: its three channels differ; it must be grey"),
    ):
        loader.batch(0)
    with pytest.raises(ConfigError, match=r"there are 4 rows.*needs a column 'm' of the sou"):
        run(many.take([3, 4, 5, 6]), mask)
    keys = many.frame.with_columns(m=pl.int_range(pl.len()))
    part = Manifest(keys, many.source, many.classes).take([3, 8, 5, 6])
    with run(part, mask, sampler=[0, 1, 2, 3]) as loader:
        assert loader.batch(0)["m"][:, 0, 0].tolist() == [3, 8, 5, 6]


@pytest.mark.parametrize(
    "dtype", ["?", "u1", "i2", "u2", ">u2", "i4", "i8", "u8", "f2", "f4", "f8"]
)
def test_values_in_memory_are_taken_as_they_are(dtype: str, many: Manifest) -> None:
    drawn = np.random.default_rng(5).integers(0, 2 if dtype == "?" else 100, (COUNT, 30, 40))
    values = drawn.astype(dtype) * (np.float16(0.5) if "f" in dtype else np.True_).astype(dtype)
    for images in (values, list(values)):
        source = gpufeed.MemorySource(images)
        kind = Depth if "f" in dtype else Mask
        batch = feed(many, [], kind("m", source=source))
        assert batch["m"].dtype == (np.float32 if "f" in dtype else np.uint8)
        np.testing.assert_array_equal(batch["m"], values)
        turned = feed(many, [tf.RandomHorizontalFlip(1.0)], Depth("d", source=source))
        np.testing.assert_array_equal(turned["d"], values[:, :, ::-1])
        if "f" in dtype:
            with pytest.raises(DecodeError, match="m: its values are floating-point numbers"):
                feed(many, [], Mask("m", source=source))
    wrong = gpufeed.MemorySource([values[0].T] * COUNT)
    with pytest.raises(DecodeError, match=r"m: it is 30 x 40 \(width x height\), but its image 40"):
        feed(many, [], Mask("m", source=wrong))


def test_values_in_memory_fit_their_dtype(many: Manifest) -> None:
    source = gpufeed.MemorySource(np.full((COUNT, 30, 40), 300, np.uint16))
    with pytest.raises(DecodeError, match="it has the value 300, which does not fit in uint8; pas"):
        feed(many, [], Mask("m", source=source))
    assert (feed(many, [], Mask("m", source=source, dtype="int32"))["m"] == 300).all()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_link_out_of_the_root_is_refused(
    kind: str, many: Manifest, tmp_path_factory: Any
) -> None:
    """When it is read, so that a link that came later is refused too; one within is followed."""
    outside = tmp_path_factory.mktemp("outside") / "3.mask.png"
    outside.write_bytes(png(np.full((30, 40), 77, np.uint8)))
    path, other = (Path(many.root) / f"{number}.mask.png" for number in (3, 4))
    mask = Mask("mask")
    if kind == "file":
        path.unlink()
        path.symlink_to(outside)
    else:
        (many.root / "folder").symlink_to(outside.parent)
        column = pl.when(pl.col("mask") == path.name).then(pl.lit(f"folder/{path.name}"))
        frame = many.frame.with_columns(column.otherwise("mask").alias("mask"))
        many = Manifest(frame, many.root, many.classes)
    other.rename(other.with_name("inside.png"))
    other.symlink_to("inside.png")
    one: Any = {"sampler": [3], "batch_size": 1}
    with (
        run(many, mask, **one) as loader,
        pytest.raises(DecodeError, match=r"3.*symbolic link leads it out of the root, to .*follow"),
    ):
        loader.batch(0)
    with run(many, Mask("mask", follow_links=True), **one) as loader:
        assert (loader.batch(0)["mask"] == 77).all()
    with run(many, mask, sampler=[4], batch_size=1) as loader:
        assert set(np.unique(loader.batch(0)["mask"])) <= {4, 255}


def test_what_cannot_be_is_refused(many: Manifest) -> None:
    memory = gpufeed.MemorySource([b""] * COUNT)
    frame = many.frame.with_columns(none=pl.lit(None, pl.String), number=pl.lit(3))
    other = Manifest(frame, many.source, many.classes)
    unfiled = Manifest(frame, memory, many.classes)
    numbered = frame.with_row_index("m").with_columns(pl.col("m").cast(pl.Int64))
    far, below = (
        Manifest(numbered.with_columns(m), many.source, many.classes)
        for m in (pl.col("m").replace(COUNT - 1, COUNT), pl.col("m") - 1)
    )
    up = frame.with_columns(mask=pl.lit("../secret.png"))
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: run(other, Mask("seg")), r"Mask\('seg'\), but the manifest has no column 'seg'"),
        (lambda: run(other, Mask("none")), "'none' is String with 12 nulls; it must be String"),
        (lambda: run(other, Mask("number")), "'number' is Int32 with 0 nulls; it must be String"),
        (lambda: run(other, Mask("mask", source=memory)), "must be integers without nulls"),
        (lambda: run(far, Mask("m", source=memory)), "'m' has keys from 0 to 12; they must be key"),
        (lambda: run(below, Mask("m", source=memory)), "'m' has keys from -1 to 10; they must be"),
        (lambda: run(unfiled), "whose paths are relative, and the images are .*; pass root="),
        (lambda: run(Manifest(up, many.source, many.classes)), "leaves the root through '..'"),
        (lambda: run(many, Mask("image", column="mask")), "a field with the name 'image'"),
        (lambda: run(many, Mask("mask"), Depth("mask")), "a field with the name 'mask'"),
        (lambda: run(many, Mask("mask"), columns=["mask"]), "columns has 'mask', which a batch"),
        (lambda: run(many, cache="device"), 'cache is "device", but masks and depth maps of'),
        (lambda: Mask("mask", root="a", source=memory), "root is 'a', but source is given too"),
        (lambda: Mask("mask", fill=256), "fill is 256; it must be an integer of uint8"),
        (lambda: Mask("mask", fill=0.5), "fill is 0.5; it must be an integer of uint8"),
        (lambda: Mask("mask", dtype="int64"), "dtype is 'int64'; it must be"),
        (lambda: Depth("d", interpolation="bicubic"), "interpolation is 'bicubic'"),
        (lambda: Depth("d", scale="1"), "scale is '1'; it must be a number"),
    ]
    for act, said in cases:
        with pytest.raises((ConfigError, ManifestError), match=said):
            act()
    with pytest.raises(ConfigError, match=r"targets is .*Mask\('mask'\); it must be a list, as"):
        Loader(many, targets=Mask("mask"))  # type: ignore[arg-type]
    for mixing in (tf.MixUp(0.2), tf.CutMix()):
        with pytest.raises(ConfigError, match=r"targets has \['mask'\], but .* moves or mixes"):
            make(many, [tf.CenterCrop(9), tf.Normalize(), mixing], Mask("mask"))
    with pytest.raises(ConfigError, match=r"targets has \['mask'\], but RandAugment"):
        make(many, [tf.CenterCrop(9), tf.RandAugment()], Mask("mask"))


# --------------------------------------------------------------------------------- sheets


def test_sheets_show_masks_and_maps(many: Manifest) -> None:
    steps = [tf.CenterCrop((30, 50)), tf.ToDtype("uint8")]
    sheets = []
    for targets in ([], [Mask("mask")], [Mask("mask"), Depth("d", column="mask")]):
        with make(many, steps, *targets) as loader:
            sheets.append(loader.show())
    plain, tinted, wide = sheets
    assert plain.size == tinted.size
    differ = (np.asarray(plain) != np.asarray(tinted)).any(axis=-1)
    # All but the first mask, which is 0 but for its padding.
    assert (COUNT - 1) * 30 * 50 * 0.9 < differ.sum() <= (COUNT - 1) * 30 * 50 + 30 * 10
    assert (
        np.asarray(wide).shape != np.asarray(tinted).shape
        or (np.asarray(wide) != np.asarray(tinted)).any()
    )


def test_a_map_is_drawn_from_its_smallest_value_to_its_largest() -> None:
    """Of those that mean something; the others are in blue, and change no grey."""
    values = np.array([[100, 101, 102, 105], [0, np.nan, np.inf, 100]], np.float32)
    flat = np.full((2, 4), 7, np.float32)
    drawn, same, empty = draw_map(np.stack([values, flat, flat * 0]), missing=0)
    assert drawn[0].tolist() == [[level] * 3 for level in (0, 51, 102, 255)]
    blue = drawn[1, 0].tolist()
    assert blue[2] > max(blue[:2])
    assert drawn[1].tolist() == [blue, blue, blue, [0] * 3]
    assert not same.any()
    assert (empty == blue).all()
