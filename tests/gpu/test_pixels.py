"""What a device makes of images is what Pillow and the CPU's threads make of them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import gpufeed
from benchmarks.gpu.data import FORMATS, encoded_as, in_memory
from gpufeed import Manifest
from gpufeed import transforms as tf
from tests.support.devices import PURE_WAYS, WAYS
from tests.support.loaders import make
from tests.support.media import picture

UINT8 = tf.ToDtype("uint8", layout="NHWC")
SQUARE = [tf.Resize(40), tf.CenterCrop(36)]
CHAINS: dict[str, Any] = {
    "crop, flips": [tf.RandomResizedCrop(24), tf.RandomHorizontalFlip(), tf.RandomVerticalFlip()],
    "pads": [tf.CenterCrop(70), tf.Pad(5, fill=(1, 2, 200)), tf.PadToSquare(90)],
    "trimmed resizes": [*SQUARE, tf.Resize((20, 28)), tf.RandomCrop((16, 20))],
    "warps": [*SQUARE, tf.RandomRotation(30), tf.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10)],
    "perspective": [*SQUARE, tf.RandomPerspective(0.5, 1.0)],
    "policy": [*SQUARE, tf.RandAugment()],
    "nobody chosen": [*SQUARE, tf.RandomInvert(0.0), tf.RandomEqualize(0.0)],
    "jitter, blur": [*SQUARE, tf.ColorJitter(0.4, 0.4, 0.4), tf.GaussianBlur(5, 1.5)],
}
LATE: dict[str, Any] = {
    "erase, mix": [tf.RandomErasing(1.0), tf.MixUp()],
    "erase, cut": [tf.RandomErasing(1.0, value="random"), tf.CutMix()],
}
LISTS: dict[str, Any] = {
    **{name: [*chain, UINT8] for name, chain in CHAINS.items()},
    **{name: [*SQUARE, tf.Normalize(dtype="float16"), *late] for name, late in LATE.items()},
    "two views": gpufeed.presets.simclr(24),
    "five crops": [*SQUARE, tf.FiveCrop(16), UINT8],
}


def levels(batch: Any) -> list[np.ndarray]:
    """The images of each view; normalised ones in steps of about a grey level."""
    image = batch["image"]
    views = image if isinstance(image, list) else [image]
    scale = 1 if views[0].dtype == np.uint8 else 58
    return [scale * np.asarray(view).astype(np.float64) for view in views]


@pytest.mark.parametrize("way", [way for way in PURE_WAYS if way.id != "cpu-threads"])
@pytest.mark.parametrize("name", LISTS)
def test_transforms_are_the_cpus(pictures: Manifest, name: str, way: dict[str, Any]) -> None:
    """Means, since few pixels may differ much: at rims, and on borders of what is erased."""
    made = []
    for options in (way, {"device": "cpu", "opener": "threads"}):
        with make(pictures, transforms=LISTS[name], **options) as loader:
            made.append(levels(loader.batch(1)))
    for ours, wanted in zip(*made, strict=True):
        assert ours.shape == wanted.shape
        assert np.abs(ours - wanted).mean() < 1.2
        assert np.percentile(np.abs(ours - wanted), 90) <= 3


@pytest.fixture(scope="module")
def files() -> list[tuple[str, bytes, tuple[int, int]]]:
    """Two files of each format, and their sizes."""
    listed = []
    for number, kind in enumerate(FORMATS):
        images = [picture(50 + number, 70 - number, 2 * number + seed) for seed in (0, 1)]
        for content, size in zip(*encoded_as(images, kind), strict=True):
            listed.append((kind, content, size))
    return listed


@pytest.mark.parametrize("way", WAYS)
def test_files_of_all_formats_in_one_batch_are_pillows(
    files: list[tuple[str, bytes, tuple[int, int]]], way: dict[str, Any]
) -> None:
    """EXIF orientations, all kinds of chroma, CMYK, progressive, and other formats together."""
    _, contents, sizes = zip(*files, strict=True)
    manifest = in_memory(contents, sizes)
    order = np.random.default_rng(0).permutation(len(files)).tolist()
    options = {"sampler": order, "transforms": [tf.CenterCrop(32), UINT8], "batch_size": len(order)}
    with make(manifest, **options, **way) as loader:
        batch = loader.batch(0)
    for key, image in zip(batch["record_key"].tolist(), batch["image"], strict=True):
        kind, content, (width, height) = files[key]
        with Image.open(io.BytesIO(content)) as opened:
            upright = ImageOps.exif_transpose(opened).convert("RGB")
        assert upright.size == (width, height)
        top, left = round((height - 32) / 2), round((width - 32) / 2)
        wanted = np.asarray(upright)[top : top + 32, left : left + 32]
        assert np.abs(image.astype(int) - wanted).mean() < 1, kind
