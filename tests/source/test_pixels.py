"""Pixels in memory give the batches of the same images in PNG files, without being decoded."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from PIL import Image

import gpufeed
from gpufeed import (
    ConfigError,
    DecodeError,
    Manifest,
    ManifestError,
    MemorySource,
    SizeMismatchError,
    SourceError,
    read_table,
)
from gpufeed import transforms as tf
from gpufeed.tools.bench import bench
from gpufeed.tools.check.dataset import check
from gpufeed.tools.check.page import save_page
from gpufeed.tools.replay import replay_batch
from gpufeed.tools.show import show_batch
from tests.support.loaders import digest, make
from tests.support.media import picture

Keys = npt.NDArray[np.int64]

COUNT = 12
SIZES = [(40 + 3 * number, 70 - 2 * number) for number in range(COUNT)]
IMAGES = [picture(*size, seed=number) for number, size in enumerate(SIZES)]
LABELS = pl.DataFrame({"label": ["a", "b", "c"] * (COUNT // 3)})


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def of(images: Any) -> Manifest:
    return read_table(LABELS, source=MemorySource(images), progress=False)


def digests(manifest: Manifest, **options: Any) -> list[str]:
    with make(manifest, batch_size=4, **options) as loader:
        return [digest(batch) for batch in loader]


def files(images: Sequence[Image.Image], kind: str = "PNG") -> Manifest:
    return of([encoded(image, kind) for image in images])


def mixed(images: Sequence[Image.Image]) -> list[Any]:
    ways: list[Callable[[Image.Image], Any]] = [np.asarray, encoded, Image.Image.copy]
    return [ways[number % 3](image) for number, image in enumerate(images)]


class Shelf:
    """A source of a user's own."""

    def __init__(self, images: Sequence[Any]) -> None:
        self.images = images

    def read(self, keys: Keys) -> list[Any]:
        return [self.images[key] for key in keys]

    def name(self, key: int) -> str:
        return f"shelf:{key}"


OPENERS: list[Any] = ["auto", "threads", "graph", {"threads": 0.5, "graph": 0.5}]


@pytest.mark.parametrize("opener", OPENERS, ids=str)
def test_batches_are_those_of_files(opener: Any) -> None:
    wanted = digests(files(IMAGES), opener=opener)
    assert digests(of([np.asarray(image) for image in IMAGES]), opener=opener) == wanted
    assert digests(of(mixed(IMAGES)), opener=opener) == wanted
    upside_down = [np.asarray(image)[::-1].copy() for image in IMAGES]
    assert digests(of([each[::-1] for each in upside_down]), opener=opener) == wanted


MODES = ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("opener", ["threads", "graph"])
def test_images_of_pillow_are_converted_like_files(mode: str, opener: str) -> None:
    images = [image.convert(mode) for image in IMAGES]
    if mode.endswith("A"):
        for image in images:
            levels = np.arange(image.width * image.height).reshape(image.height, image.width)
            image.putalpha(Image.fromarray((levels % 256).astype(np.uint8)))
    if mode == "P":
        images[0].info["transparency"] = bytes(range(16))
        images[1].info["transparency"] = 3
    wanted = digests(files(images, "TIFF" if mode == "CMYK" else "PNG"), opener=opener)
    assert digests(of(images), opener=opener) == wanted


@pytest.mark.parametrize("opener", ["threads", "graph"])
def test_grey_becomes_three_channels(opener: str) -> None:
    grey = [image.convert("L") for image in IMAGES]
    assert digests(of([np.asarray(image) for image in grey]), opener=opener) == digests(
        files(grey), opener=opener
    )


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_one_array_has_all_images(mode: str, tmp_path: Path) -> None:
    """As the arrays of CIFAR and MNIST do; tiny images are decoded in the graph by default."""
    images = [image.resize((28, 28)).convert(mode) for image in IMAGES]
    array = np.stack([np.asarray(image) for image in images])
    np.save(tmp_path / "images.npy", array)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    wanted = digests(files(images))
    assert digests(of(array)) == digests(of(mapped)) == wanted
    assert digests(of(mapped), opener="threads") == digests(files(images), opener="threads")


def test_nothing_is_decoded_or_copied(decoded: list[bytes]) -> None:
    arrays = [np.asarray(image) for image in IMAGES]
    manifest = of(arrays)
    digests(manifest)
    assert not decoded
    (read,) = manifest.source.read(np.array([5]))
    assert read is arrays[5]


def test_an_orientation_is_not_applied() -> None:
    """Pillow tells it of an image that `exif_transpose` has already turned too."""
    image = IMAGES[0].copy()
    image.getexif()[0x0112] = 6
    assert of([image] * COUNT).sizes()[0].tolist() == list(SIZES[0])


def test_a_source_of_ones_own_may_return_pixels() -> None:
    own = read_table(LABELS, source=Shelf([np.asarray(image) for image in IMAGES]))
    plain = read_table(LABELS, source=Shelf([encoded(image) for image in IMAGES]))
    assert digests(own) == digests(plain)


WRONG: list[tuple[Any, str]] = [
    (np.zeros((4, 5, 3), np.float32), r"float32 \(4, 5, 3\)"),
    (np.zeros((4, 5, 3), np.uint16), r"uint16 \(4, 5, 3\)"),
    (np.zeros((4, 5, 4), np.uint8), r"uint8 \(4, 5, 4\)"),
    (np.zeros((3, 4, 5), np.uint8), r"uint8 \(3, 4, 5\)"),
    (np.zeros((0, 5, 3), np.uint8), r"uint8 \(0, 5, 3\)"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_other_arrays_are_refused(wrong: Any, said: str) -> None:
    with pytest.raises(
        ConfigError,
        match=rf"^images\[1\] is an array {said}; it must be uint8, RGB or grey, with values from "
        r"0 to 255, of the shape \(height, width, 3\) or \(height, width\); or, for Mask and Depth"
        r", other numbers of the shape \(height, width\)$",
    ):
        MemorySource([b"", wrong])
    with pytest.raises(ConfigError, match=r"^images is an array .* shape \(n, height, width, 3\)"):
        MemorySource(wrong[None])
    source = Shelf([wrong] * COUNT)
    with pytest.raises(
        SourceError,
        match=rf"^Shelf\.read returned ndarray {said} for key 0; an image must be bytes, .*; or "
        r"its pixels, a uint8 array \(height, width, 3\); masks and depth maps may be numbers "
        r"\(height, width\)$",
    ):
        read_table(LABELS, source=source)


@pytest.mark.parametrize("opener", ["threads", "graph"])
def test_values_of_masks_are_no_images(opener: str, tmp_path: Path) -> None:
    """Wherever an image is read; the others are fed."""
    images = [np.zeros((4, 5, 3), np.uint8), np.zeros((4, 5), np.float32)] * 6
    wrong = MemorySource(images)
    said = r"it is an array float32 \(4, 5\), which only Mask and Depth take; images are uint8 \(he"
    with pytest.raises(ManifestError, match=f"6 of 12 images are bad: 1: {said}"):
        read_table(LABELS, source=wrong)
    sized = LABELS.with_columns(path=pl.lit("x"), width=pl.lit(5), height=pl.lit(4))
    manifest = Manifest(sized.with_columns(label=0), wrong, ["a"])
    with pytest.raises(DecodeError, match=said):
        manifest[1].image()
    with make(manifest, opener=opener, on_error="substitute", max_failures=6) as loader:
        assert len(list(loader)) == 1
        assert set(loader.quarantine.record_keys) <= {1, 3, 5, 7, 9, 11}
    report = check(manifest.frame, wrong, progress=False)
    assert report.findings.filter("fails")["kind"].to_list() == ["unreadable"] * 6
    save_page(report, "x", tmp_path / "page.html")


def test_other_images_of_pillow_are_refused() -> None:
    for mode in ("I;16", "F", "HSV", "PA"):
        with pytest.raises(
            ConfigError, match=rf"images\['x'\] is a PIL image of mode '{mode}'; convert it to one"
        ):
            MemorySource({"x": Image.new(mode, (3, 2))})
    with pytest.raises(ConfigError, match=r"images\[0\] is list; it must be the content of an"):
        MemorySource([[1]])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="images is Image; it must be a sequence or mapping"):
        MemorySource(Image.new("RGB", (3, 2)))  # type: ignore[arg-type]


def test_sizes_are_those_of_the_arrays() -> None:
    manifest = of({f"{number}": image for number, image in enumerate(mixed(IMAGES))})
    assert manifest.sizes().tolist() == [list(size) for size in SIZES]
    assert manifest.frame["path"].to_list() == [str(number) for number in range(COUNT)]
    wrong = manifest.frame.with_columns(width=pl.col("width") + 1).drop("path")
    with pytest.raises(ManifestError, match="8 of 8 images that were probed are bad: 0: 70 x 40"):
        read_table(wrong, source=manifest.source)


@pytest.mark.parametrize("opener", ["threads", "graph"])
def test_an_image_of_another_size_is_bad(opener: str) -> None:
    images = [np.asarray(image) for image in IMAGES]
    manifest = read_table(LABELS, source=Shelf(images))
    images[5] = images[5][1:]
    with (
        make(manifest, opener=opener) as loader,
        pytest.raises(SizeMismatchError, match=r"record 5 \(shelf:5\): the image is 60 x 54"),
    ):
        list(loader)
    with make(manifest, opener=opener, on_error="substitute", max_failures=1) as loader:
        assert len(list(loader)) == 1
        assert [failure.record_key for failure in loader.quarantine] == [5]
    with pytest.raises(SizeMismatchError):
        manifest[5].image()
    found = check(manifest.frame, manifest.source, progress=False).findings
    assert found.select("record_key", "kind").rows() == [(5, "other size")]


def test_the_limit_on_pixels_holds() -> None:
    manifest = of([np.asarray(image) for image in IMAGES])
    with make(manifest, max_pixels=3000) as loader, pytest.raises(DecodeError, match="max_pixels"):
        list(loader)
    found = check(manifest.frame, manifest.source, max_pixels=3000, progress=False)
    assert found.failing == sum(height * width > 3000 for height, width in SIZES)


def test_a_record_shows_its_image() -> None:
    array = np.asarray(IMAGES[3]).copy()
    manifest = of([array, *IMAGES[1:]])
    shown = manifest[0].image()
    assert np.array_equal(np.asarray(shown), array)
    shown.paste((0, 0, 0), (0, 0, 9, 9))
    assert np.array_equal(np.asarray(manifest[0].image()), array)


@pytest.mark.parametrize("chain", [[tf.Resize((20, 20))], [tf.RandomResizedCrop(20)]])
def test_a_cache_keeps_pixels(chain: list[Any]) -> None:
    wanted = digests(files(IMAGES), transforms=chain)
    with make(of(mixed(IMAGES)), batch_size=4, transforms=chain, cache="host") as loader:
        assert [digest(batch) for batch in loader] == wanted
        again = [digest(batch) for batch in loader]
    with make(files(IMAGES), batch_size=4, transforms=chain) as loader:
        list(loader)
        assert [digest(batch) for batch in loader] == again


def test_the_tools_take_pixels(tmp_path: Path) -> None:
    manifest = of([*mixed(IMAGES[:-1]), np.asarray(IMAGES[0])])
    report = check(manifest.frame, manifest.source, progress=False)
    kinds = report.findings.select("record_key", "kind").rows()
    assert kinds == [(COUNT - 1, "two labels"), (COUNT - 1, "duplicate")]
    save_page(report, "pixels", tmp_path / "page.html")
    assert "data:image/jpeg" in (tmp_path / "page.html").read_text()
    found = bench(manifest, size=24, batch_size=4, rounds=1, seconds=0.01, device="cpu")
    assert found.batches >= 2
    wanted = show_batch(files([*IMAGES[:-1], IMAGES[0]]), size=24, batch_size=4, device="cpu")
    shown = show_batch(manifest, size=24, batch_size=4, device="cpu")
    assert np.array_equal(np.asarray(shown.sheet), np.asarray(wanted.sheet))
    with make(manifest, batch_size=4) as loader:
        next(iter(loader))
        state = loader.get_state()
    assert replay_batch(state, manifest, 0, batch_size=4, device="cpu").step == 0


def test_parts_and_copies_of_pixels_are_the_same() -> None:
    manifest = of(mixed(IMAGES))
    again = pickle.loads(pickle.dumps(manifest))  # noqa: S301
    assert digests(again) == digests(manifest)
    both = gpufeed.concat([manifest.take([3, 4]), files(IMAGES).take([5, 6])])
    assert digests(both) == digests(gpufeed.concat([files(IMAGES).take([3, 4, 5, 6])]))


def test_slow_sources_of_pixels_are_read_on_threads() -> None:
    assert digests(of(mixed(IMAGES)), read_timeout=30) == digests(files(IMAGES))
