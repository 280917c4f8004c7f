"""Bad files: one clear error, in their own batch, and nothing else is touched."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpufeed import (
    DecodeError,
    Loader,
    Manifest,
    SequentialSampler,
    SizeMismatchError,
)
from gpufeed import transforms as tf
from gpufeed.engine.diagnose import undecodable
from gpufeed.maker import Maker
from media import jpeg, make_manifest, picture
from test_loader import digest


@pytest.fixture(params=["on host", "in graph"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who decodes: gpufeed's threads, as on the CPU, or DALI's graph, as on a GPU."""
    if request.param == "in graph":
        monkeypatch.setattr(
            Maker, "opens_on_host", property(lambda _: False, lambda *_: None), raising=False
        )
    return str(request.param)


def make(manifest: Manifest) -> Loader:
    return Loader(
        manifest,
        sampler=SequentialSampler(len(manifest)),
        transforms=[tf.RandomResizedCrop(16), tf.ToDtype("uint8")],
        batch_size=4,
        device="cpu",
        num_threads=2,
    )


@pytest.fixture
def twelve(tmp_path: Path) -> Manifest:
    return make_manifest(tmp_path / "twelve", [(50, 60)] * 12)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:700])


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def scans(path: Path) -> None:
    whole = jpeg(picture(50, 60, seed=6), progressive=True)
    last = whole.rindex(b"\xff\xda")
    path.write_bytes(whole[:-2] + whole[last:-2] * 399 + b"\xff\xd9")


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "can not be read: No such file or directory"),
    "empty": (lambda path: path.write_bytes(b""), "can not be read: the file is empty"),
    "a pipe": (pipe, "can not be read: not a regular file"),
    "a folder": (folder, "can not be read: not a regular file"),
    "cut": (cut, "the picture is damaged: .*truncated"),
    "no picture": (lambda path: path.write_text("<html>"), "not a picture that can be read"),
    "hundreds of scans": (scans, "not a picture that can be read: a JPEG of 409 scans"),
    "header only": (lambda path: path.write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF"), "picture"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_bad_file_fails_its_own_batch_only(twelve: Manifest, kind: str) -> None:
    healthy = make(twelve)
    wanted = [digest(batch) for batch in healthy]
    healthy.close()

    damage, reason = DAMAGE[kind]
    path = twelve.root / "00006.jpg"
    damage(path)
    loader = make(twelve)
    iterator = iter(loader)
    assert digest(next(iterator)) == wanted[0]
    with pytest.raises(DecodeError, match=reason) as caught:
        next(iterator)
    assert (caught.value.record_key, caught.value.path) == (6, str(path))
    assert str(caught.value).startswith(f"record 6 ({path}): ")

    # It stands before the bad batch: again the same error, until it is passed over.
    assert loader.step == 1
    with pytest.raises(DecodeError):
        next(iter(loader))
    with pytest.raises(DecodeError):
        loader.batch(1)
    assert digest(loader.batch(2)) == wanted[2]
    loader.skip()
    assert [digest(batch) for batch in loader] == wanted[2:]
    loader.close()


def test_all_bad_batches_in_a_row_are_reported_each(twelve: Manifest) -> None:
    for name in ("00000.jpg", "00001.jpg", "00005.jpg", "00011.jpg"):
        (twelve.root / name).unlink()
    loader = make(twelve)
    met = []
    while loader.epoch == 0:
        with pytest.raises(DecodeError) as caught:
            next(iter(loader))
        met.append((caught.value.record_key, getattr(caught.value, "__notes__", [])))
        loader.skip()
    assert met == [(0, ["1 more pictures of this batch are bad"]), (5, []), (11, [])]
    loader.close()


def test_a_picture_of_another_size_is_named_with_both(twelve: Manifest) -> None:
    path = twelve.root / "00002.jpg"
    path.write_bytes(jpeg(picture(60, 50, seed=2)))
    loader = make(twelve)
    message = r"the picture is 50 x 60 \(width x height\), the manifest says 60 x 50"
    with pytest.raises(SizeMismatchError, match=message) as caught:
        next(iter(loader))
    assert caught.value.record_key == 2
    loader.close()


def test_a_smaller_picture_is_named_too(twelve: Manifest) -> None:
    """Then the window to decode may lie outside, and DALI fails before sizes are compared."""
    (twelve.root / "00003.jpg").write_bytes(jpeg(picture(8, 8, seed=2)))
    loader = make(twelve)
    with pytest.raises(SizeMismatchError, match=r"the picture is 8 x 8 .* says 60 x 50"):
        next(iter(loader))
    loader.close()


def test_an_orientation_that_was_added_is_another_size(twelve: Manifest) -> None:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6
    (twelve.root / "00001.jpg").write_bytes(jpeg(picture(50, 60, seed=1), exif=exif))
    loader = make(twelve)
    with pytest.raises(SizeMismatchError, match=r"the picture is 50 x 60 .* says 60 x 50"):
        next(iter(loader))
    loader.close()


def test_other_formats_named_jpg_are_fed(twelve: Manifest) -> None:
    """NABirds has a PNG with an alpha channel that is named .jpg."""
    image = picture(50, 60, seed=1)
    image.convert("RGBA").save(twelve.root / "00001.jpg", "PNG")
    image.convert("L").save(twelve.root / "00002.jpg", "JPEG")
    image.convert("CMYK").save(twelve.root / "00003.jpg", "JPEG")
    loader = make(twelve)
    assert next(iter(loader))["image"].shape == (4, 3, 16, 16)
    loader.close()


def test_a_kind_that_is_not_supported_is_named(twelve: Manifest) -> None:
    picture(50, 60, seed=1).save(twelve.root / "00001.jpg", "GIF")
    loader = make(twelve)
    with pytest.raises(DecodeError, match="not a JPEG, PNG, WebP, TIFF, BMP or PNM picture"):
        next(iter(loader))
    loader.close()


def test_every_error_of_a_loader_is_gpufeeds_own(twelve: Manifest, testdata: Path) -> None:
    """Hundreds of odd files, each in a batch of its own: decoded, or refused by name."""
    from PIL import Image

    odd = sorted(path for path in (testdata / "odd_jpegs").rglob("*") if path.is_file())
    assert len(odd) > 400
    refused = 0
    for number, path in enumerate(odd[::12]):
        try:
            with Image.open(path) as image:
                size = image.size[::-1]
        except Exception:
            size = (16, 16)
        manifest = make_manifest(twelve.root / str(number), [size] * 4)
        shutil.copyfile(path, manifest.root / "00001.jpg")
        loader = make(manifest)
        try:
            next(iter(loader))
        except DecodeError as error:
            refused += error.record_key == 1
        loader.close()
    assert 0 < refused < len(odd[::12])


def test_threads_leave_the_warnings_filters_as_they_were() -> None:
    """Which are the process's: each puts back what it found, and another may have changed it."""
    before, interval = list(warnings.filters), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            told = pool.map(lambda key: undecodable(b"\xff\xd8\xff", key, str), range(1000))
            assert all("the picture is damaged" in error.reason for error in told)
    finally:
        sys.setswitchinterval(interval)
    assert list(warnings.filters) == before
