"""Bad files: one clear error, in their own batch, and nothing else is touched."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from nvidia.dali import Pipeline, fn
from PIL import Image

from gpufeed import (
    DecodeError,
    Loader,
    Manifest,
    PipelineError,
    SequentialSampler,
    SizeMismatchError,
)
from gpufeed import transforms as tf
from gpufeed.engine.engine import Engine
from tests.open.test_dali_errors import as_raised
from tests.support.loaders import digest
from tests.support.media import jpeg, make_manifest, odd_manifest, picture

OPENER: dict[str, Any] = {}


@pytest.fixture(params=["threads", "graph"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What opens images: threads, as on the CPU, or DALI's graph, as on a GPU."""
    monkeypatch.setitem(OPENER, "opener", request.param)
    return str(request.param)


def make(manifest: Manifest, batch_size: int = 4, **options: Any) -> Loader:
    return Loader(
        manifest,
        sampler=SequentialSampler(len(manifest)),
        batch_size=batch_size,
        device="cpu",
        num_threads=2,
        **{"transforms": [tf.RandomResizedCrop(16), tf.ToDtype("uint8")], **OPENER, **options},
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


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "cannot be read: No such file or directory"),
    "empty": (lambda path: path.write_bytes(b""), "cannot be read: the file is empty"),
    "a pipe": (pipe, "cannot be read: not a regular file"),
    "a folder": (folder, "cannot be read: not a regular file"),
    "cut": (cut, "the image is damaged: .*truncated"),
    "no image": (lambda path: path.write_text("<html>"), "not a readable image"),
    "header only": (
        lambda path: path.write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF"),
        "not a readable image",
    ),
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
        *counted, advice = caught.value.__notes__
        assert advice.startswith(
            'to continue, pass on_error="substitute" or skip() the batch; `gpuf'
        )
        # No chain of errors that are none of the user's business.
        assert "BadPictures" not in "".join(traceback.format_exception(caught.value))
        met.append((caught.value.record_key, counted))
        loader.skip()
    assert met == [(0, ["at least 2 images of this batch are bad"]), (5, []), (11, [])]
    loader.close()


def test_a_picture_of_another_size_is_named_with_both(twelve: Manifest) -> None:
    path = twelve.root / "00002.jpg"
    path.write_bytes(jpeg(picture(60, 50, seed=2)))
    loader = make(twelve)
    message = r"the image is 50 x 60 \(width x height\), but the manifest gives 60 x 50"
    with pytest.raises(SizeMismatchError, match=message) as caught:
        next(iter(loader))
    assert caught.value.record_key == 2
    loader.close()


def test_a_smaller_picture_is_named_too(twelve: Manifest) -> None:
    """Then the window to decode may lie outside, and DALI fails before sizes are compared."""
    (twelve.root / "00003.jpg").write_bytes(jpeg(picture(8, 8, seed=2)))
    loader = make(twelve)
    with pytest.raises(SizeMismatchError, match=r"the image is 8 x 8 .* gives 60 x 50"):
        next(iter(loader))
    loader.close()


def test_an_orientation_that_was_added_is_another_size(twelve: Manifest) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    (twelve.root / "00001.jpg").write_bytes(jpeg(picture(50, 60, seed=1), exif=exif))
    loader = make(twelve)
    with pytest.raises(SizeMismatchError, match=r"the image is 50 x 60 .* gives 60 x 50"):
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
    with pytest.raises(DecodeError, match="not a JPEG, PNG, WebP, TIFF, BMP or PNM image"):
        next(iter(loader))
    loader.close()


def test_every_error_of_a_loader_is_gpufeeds_own(testdata: Path, tmp_path: Path) -> None:
    """Odd files of every kind, each beside a healthy one: decoded, or refused by name."""
    odd = odd_manifest(testdata, tmp_path).frame[::3]
    (tmp_path / "healthy.jpg").write_bytes(jpeg(picture(50, 60, seed=1)))
    healthy = odd.with_columns(
        path=pl.lit("healthy.jpg"), width=pl.lit(60, pl.Int32), height=pl.lit(50, pl.Int32)
    )
    pairs = [part for at in range(len(odd)) for part in (odd[at], healthy[at])]
    manifest = Manifest(pl.concat(pairs), tmp_path, ["odd"])
    refused, images = [], []
    with make(manifest, batch_size=2) as loader:
        while loader.epoch == 0:
            try:
                images.append(next(iter(loader))["image"][1])
            except DecodeError as error:
                refused.append(error.record_key)
                loader.skip()
    assert 20 < len(refused) < len(odd)
    assert len(refused) + len(images) == len(odd)
    assert all(key % 2 == 0 for key in refused)
    assert all(image.std() > 0 for image in images)


class Enormous(tf.PixelTransform):
    """Asks for more memory than a process has addresses for."""

    def build(self, image: Any, params: Any) -> Any:  # noqa: ARG002
        return fn.resize(fn.resize(image, size=[1 << 25, 1 << 25]), size=[16, 16])


def test_no_image_is_blamed_for_missing_memory(twelve: Manifest, decoded: list[bytes]) -> None:
    """Nor is any decoded again to find out."""
    chain = [tf.RandomResizedCrop(16), Enormous(), tf.ToDtype("uint8")]
    with make(twelve, transforms=chain) as loader:
        with pytest.raises(PipelineError, match=r"out of memory; use .* std::bad_alloc"):
            loader.batch(1)
        assert len(decoded) == (4 if OPENER["opener"] == "threads" else 0)


def test_a_graph_without_memory_is_said_to_have_none(
    twelve: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Pipeline) -> None:
        raise as_raised("Can't allocate 805306368 bytes on device 0.")

    monkeypatch.setattr(Pipeline, "build", fail)
    with (
        make(twelve) as loader,
        pytest.raises(PipelineError, match=r"out of memory; use .* 805306368 bytes on device 0\."),
    ):
        loader.batch(0)


def test_a_decoder_that_fails_on_good_images_may_have_no_memory(
    twelve: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DALI's allocators give nvImageCodec a code, and it gives DALI the number of an image."""
    with make(twelve) as loader:
        loader.batch(0)

        def fail(self: Any) -> None:
            self._runs[0].outcome = as_raised("Failed to decode sample #1 : ")
            self._runs.popleft()

        monkeypatch.setattr(Engine, "_collect", fail)
        with pytest.raises(PipelineError, match="can be decoded, so a decoder may have run out"):
            loader.batch(1)
