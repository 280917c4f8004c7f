"""The work on one image, with the libraries that CPU loaders use."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.compare.work import MEAN, STD, Work

__all__ = ["Job", "centre", "delivered", "opencv_job", "pillow_job", "window"]

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


def centre(work: Work, height: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where torchvision's Resize and CenterCrop of `work` end up, to evaluate.

    Returns:
        Height and width after the resize; top and left of the centre within them.
    """
    short, long = min(height, width), max(height, width)
    sides = work.shorter, int(work.shorter * long / short)
    tall, wide = sides if height <= width else sides[::-1]
    return (tall, wide), (round((tall - work.size) / 2), round((wide - work.size) / 2))


Job = Callable[[Any, Work, np.random.Generator], Float32]
"""From a file's name or content, the work and random numbers: float32 (3, size, size)."""


def pillow_job(path: Any, work: Work, rng: np.random.Generator) -> Float32:
    """Decode, crop, resize (antialiased), flip and normalise by Pillow: float32 (3, size, size)."""
    from PIL import Image

    size = work.size
    with Image.open(path) as opened:
        image = opened.convert("RGB")
        if work.preset == "evaluate":
            (tall, wide), (top, left) = centre(work, image.height, image.width)
            whole = image.resize((wide, tall), Image.Resampling.BILINEAR)
            small = whole.crop((left, top, left + size, top + size))
            return _finished(np.asarray(small), flip=False)
        top, left, height, width = window(rng, image.height, image.width)
        box = (left, top, left + width, top + height)
        small = image.resize((size, size), Image.Resampling.BILINEAR, box=box)
    return _finished(np.asarray(small), bool(rng.random() < 0.5))


def opencv_job(path: Any, work: Work, rng: np.random.Generator) -> Float32:
    """The same by simplejpeg and OpenCV, whose linear resize is not antialiased."""
    import cv2
    import simplejpeg

    size = work.size
    with open(path, "rb") as file:  # noqa: PTH123 - a hot path
        image = simplejpeg.decode_jpeg(file.read())
    if work.preset == "evaluate":
        (tall, wide), (top, left) = centre(work, *image.shape[:2])
        whole = np.asarray(cv2.resize(image, (wide, tall), interpolation=cv2.INTER_LINEAR))
        return _finished(whole[top : top + size, left : left + size], flip=False)
    top, left, height, width = window(rng, *image.shape[:2])
    part = image[top : top + height, left : left + width]
    small = cv2.resize(part, (size, size), interpolation=cv2.INTER_LINEAR)
    return _finished(np.asarray(small, dtype=np.uint8), bool(rng.random() < 0.5))


def delivered(work: Work, image: Any) -> Any:
    """Bring a batch in host memory to the work's device; on a GPU it becomes a torch tensor."""
    if work.device != "cuda":
        return image
    import torch

    tensor = torch.as_tensor(image)
    return (tensor if tensor.is_pinned() else tensor.pin_memory()).cuda(non_blocking=True)
