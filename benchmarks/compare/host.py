"""The work on one picture by the libraries that CPU loaders are used with."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from benchmarks.compare.work import MEAN, STD

__all__ = ["opencv_job", "pillow_job", "window"]

Float32 = npt.NDArray[np.float32]

_SCALE = (1 / (255 * np.array(STD))).astype(np.float32)
_SHIFT = (-np.array(MEAN) / np.array(STD)).astype(np.float32)


def window(rng: np.random.Generator, height: int, width: int) -> tuple[int, int, int, int]:
    """Draw top, left, height and width, as torchvision's RandomResizedCrop does."""
    for _ in range(10):
        area = height * width * rng.uniform(0.08, 1.0)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            top, left = rng.integers(0, height - h + 1), rng.integers(0, width - w + 1)
            return int(top), int(left), h, w
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side


def _finished(pixels: npt.NDArray[np.uint8], flip: bool) -> Float32:
    if flip:
        pixels = pixels[:, ::-1]
    levels = pixels.astype(np.float32) * _SCALE + _SHIFT
    return np.ascontiguousarray(levels.transpose(2, 0, 1))


def pillow_job(path: str, size: int, rng: np.random.Generator) -> Float32:
    """Decode, crop, resize (antialiased), flip and normalise by Pillow: float32 (3, size, size)."""
    from PIL import Image

    with Image.open(path) as opened:
        image = opened.convert("RGB")
        top, left, height, width = window(rng, image.height, image.width)
        box = (left, top, left + width, top + height)
        small = image.resize((size, size), Image.Resampling.BILINEAR, box=box)
    return _finished(np.asarray(small), bool(rng.random() < 0.5))


def opencv_job(path: str, size: int, rng: np.random.Generator) -> Float32:
    """The same by simplejpeg and OpenCV, whose linear resize is not antialiased."""
    import cv2
    import simplejpeg

    with open(path, "rb") as file:  # noqa: PTH123 - a hot path
        image = simplejpeg.decode_jpeg(file.read())
    top, left, height, width = window(rng, *image.shape[:2])
    part = image[top : top + height, left : left + width]
    small = cv2.resize(part, (size, size), interpolation=cv2.INTER_LINEAR)
    return _finished(np.asarray(small, dtype=np.uint8), bool(rng.random() < 0.5))
