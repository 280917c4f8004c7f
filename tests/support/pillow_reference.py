"""The transforms once more, one image at a time, in Pillow: what the graph must come to.

Written from torchvision's documentation and nothing of gpufeed's geometry: each step makes a
image, whose own size the next one goes by.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from gpufeed import transforms as tf
from gpufeed.rng import BatchRng

Edges = Literal["left out", "repeated"]

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def drawn(
    transform: tf.GeometricTransform,
    image: Image.Image,
    rng: BatchRng,
    key: int,
    box: tuple[int, int, int, int] | None,
) -> dict[str, int]:
    """What a transform draws for this one image, x0 y0 x1 y1 being its box."""
    records = tf.Records(
        record_key=np.array([key]),
        height=np.array([image.height]),
        width=np.array([image.width]),
        boxes=None if box is None else np.array([box], dtype=np.float64),
        objects=None
        if box is None
        else tf.Objects(np.array([box], dtype=np.float64), np.array([0, 1]), np.zeros(1, np.int32)),
    )
    return {name: values[0].item() for name, values in transform.draw(rng, records).items()}


def resample(
    image: Image.Image, size: tuple[int, int], interpolation: str, edges: Edges
) -> Image.Image:
    """Resize to (width, height).

    Where the filter reaches out of the image, Pillow leaves the missing pixels out. With edges
    "repeated" it is shown an image that goes on with its outermost pixels.
    """
    if edges == "left out":
        return image.resize(size, FILTERS[interpolation])
    across, down = (
        math.ceil(3 * max(old / new, 1)) + 1 for old, new in zip(image.size, size, strict=True)
    )
    levels = np.asarray(image)
    larger = np.pad(levels, ((down, down), (across, across), (0, 0)), mode="edge")
    box = (across, down, across + image.width, down + image.height)
    return Image.fromarray(larger).resize(size, FILTERS[interpolation], box=box)


def resized(image: Image.Image, size: int | tuple[int, int] | None, max_size: int | None):
    """The (height, width) that torchvision's Resize gives."""
    if isinstance(size, tuple):
        return size
    short, long = sorted(image.size)
    if size is None:
        new_short, new_long = max(int(max_size * short / long), 1), max_size
    else:
        new_short, new_long = size, int(size * long / short)
        if max_size is not None and new_long > max_size:
            new_short, new_long = max(int(max_size * new_short / new_long), 1), max_size
    return (new_long, new_short) if image.height > image.width else (new_short, new_long)


def apply(
    transform: tf.GeometricTransform, image: Image.Image, p: dict[str, int], edges: Edges
) -> Image.Image:
    """Carry out one transform with its drawn parameters."""
    match transform:
        case tf.RandomResizedCrop():
            box = (p["left"], p["top"], p["left"] + p["width"], p["top"] + p["height"])
            height, width = transform.size
            cut = image.crop(box)
            return resample(cut, (width, height), transform.interpolation, edges)
        case tf.Resize():
            height, width = resized(image, transform.size, transform.max_size)
            return resample(image, (width, height), transform.interpolation, edges)
        case tf.ResizeLongest():
            factor = transform.size / max(image.size)
            width, height = (max(int(side * factor), 1) for side in image.size)
            return resample(image, (width, height), transform.interpolation, edges)
        case tf.CenterCrop():
            height, width = transform.size
            if image.width < width or image.height < height:
                spare_x, spare_y = max(width - image.width, 0), max(height - image.height, 0)
                around = (spare_x // 2, spare_y // 2, (spare_x + 1) // 2, (spare_y + 1) // 2)
                image = ImageOps.expand(image, around)
            top = round((image.height - height) / 2.0)
            left = round((image.width - width) / 2.0)
            return image.crop((left, top, left + width, top + height))
        case tf.RandomCrop():
            height, width = transform.size
            colour = tuple(int(level) for level in transform.fill)
            if transform.padding is not None:
                image = ImageOps.expand(image, transform.padding, colour)
            if transform.pad_if_needed and image.width < width:
                image = ImageOps.expand(image, (width - image.width, 0), colour)
            if transform.pad_if_needed and image.height < height:
                image = ImageOps.expand(image, (0, height - image.height), colour)
            return image.crop((p["left"], p["top"], p["left"] + width, p["top"] + height))
        case tf.Pad():
            return ImageOps.expand(
                image, transform.padding, tuple(int(level) for level in transform.fill)
            )
        case tf.RandomZoomOut():
            colour = tuple(int(level) for level in transform.fill)
            around = (p["left"], p["top"], p["right"], p["bottom"])
            return ImageOps.expand(image, around, colour)
        case tf.RandomResize() | tf.RandomShortestSize() | tf.ScaleJitter():
            return resample(image, (p["width"], p["height"]), transform.interpolation, edges)
        case tf.BoxCrop() | tf.RandomIoUCrop():
            return image.crop((p["left"], p["top"], p["left"] + p["width"], p["top"] + p["height"]))
        case tf.PadToSquare():
            fill = tuple(int(level) for level in transform.fill)
            canvas = Image.new("RGB", (transform.size, transform.size), fill)
            place = ((transform.size - image.width) // 2, (transform.size - image.height) // 2)
            canvas.paste(image, place)
            return canvas
        case tf.RandomHorizontalFlip():
            return ImageOps.mirror(image) if p["flip"] else image
        case tf.RandomVerticalFlip():
            return ImageOps.flip(image) if p["flip"] else image
    raise AssertionError(f"no reference for {transform!r}")


def reference(
    image: Image.Image,
    transforms: list[tf.Transform],
    *,
    seed: int,
    epoch: int,
    key: int,
    box: tuple[int, int, int, int] | None = None,
    edges: Edges = "left out",
) -> npt.NDArray[np.uint8]:
    """Carry out all geometric transforms of a list; a box holds until one but zooming out."""
    image = ImageOps.exif_transpose(image).convert("RGB")
    for number, transform in enumerate(transforms):
        if isinstance(transform, tf.GeometricTransform):
            rng = BatchRng(seed, np.array([epoch]), np.array([key]), number)
            p = drawn(transform, image, rng, key, box)
            image = apply(transform, image, p, edges)
            moved = box is not None and isinstance(transform, tf.RandomZoomOut)
            box = tuple(np.add(box, (p["left"], p["top"]) * 2)) if moved else None
    return np.asarray(image)


def difference(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> tuple[int, float]:
    """Largest and mean difference in grey levels."""
    apart = np.abs(a.astype(np.int16) - b.astype(np.int16))
    return int(apart.max()), float(apart.mean()) if math.prod(apart.shape) else 0.0
