"""Pillow and NumPy references of the operations in `gpufeed.transforms.operators.colour`.

Written from Pillow's own operations, which torchvision calls, or where Pillow has none, or a coarse
one, from torchvision's definitions on uint8 tensors. Nothing of gpufeed is used.
"""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

Levels = npt.NDArray[np.uint8]


def brightness(levels: Levels, factor: float) -> Levels:
    return np.asarray(ImageEnhance.Brightness(Image.fromarray(levels)).enhance(factor))


def contrast(levels: Levels, factor: float) -> Levels:
    return np.asarray(ImageEnhance.Contrast(Image.fromarray(levels)).enhance(factor))


def saturation(levels: Levels, factor: float) -> Levels:
    return np.asarray(ImageEnhance.Color(Image.fromarray(levels)).enhance(factor))


def sharpness(levels: Levels, factor: float) -> Levels:
    return np.asarray(ImageEnhance.Sharpness(Image.fromarray(levels)).enhance(factor))


def grayscale(levels: Levels) -> Levels:
    return np.asarray(Image.fromarray(levels).convert("L").convert("RGB"))


def posterize(levels: Levels, bits: int) -> Levels:
    if not bits:  # which Pillow refuses
        return np.zeros_like(levels)
    return np.asarray(ImageOps.posterize(Image.fromarray(levels), int(bits)))


def solarize(levels: Levels, threshold: float) -> Levels:
    return np.asarray(ImageOps.solarize(Image.fromarray(levels), threshold))


def invert(levels: Levels) -> Levels:
    return np.asarray(ImageOps.invert(Image.fromarray(levels)))


def autocontrast(levels: Levels) -> Levels:
    return np.asarray(ImageOps.autocontrast(Image.fromarray(levels)))


def equalize(levels: Levels) -> Levels:
    return np.asarray(ImageOps.equalize(Image.fromarray(levels)))


def jpeg(levels: Levels, quality: int) -> Levels:
    buffer = io.BytesIO()
    Image.fromarray(levels).save(buffer, "JPEG", quality=int(quality))
    return np.asarray(Image.open(buffer).convert("RGB"))


def to_levels(numbers: npt.NDArray[np.float64]) -> Levels:
    """From 0..1, as torchvision's `to_dtype(scale=True)` does."""
    return np.floor(numbers * 255.999).astype(np.uint8)


def gamma(levels: Levels, gamma: float) -> Levels:
    return to_levels((levels / 255) ** float(gamma))


def hue(levels: Levels, shift: float) -> Levels:
    """Through HSV as Smith (1978) has it, which is torchvision's way with tensors."""
    red, green, blue = np.moveaxis(levels / 255, -1, 0)
    value = np.maximum(np.maximum(red, green), blue)
    chroma = value - np.minimum(np.minimum(red, green), blue)
    some = np.where(chroma == 0, 1.0, chroma)
    sixths = np.select(
        [chroma == 0, value == red, value == green],
        [0.0 * red, (green - blue) / some, 2 + (blue - red) / some],
        4 + (red - green) / some,
    )
    turned = (sixths / 6 + float(shift)) % 1 * 6
    sector = np.floor(turned).astype(int) % 6
    part = turned - np.floor(turned)
    dark = value - chroma
    falling, rising = value - chroma * part, value - chroma * (1 - part)
    out = np.empty(levels.shape)
    for number, channels in enumerate(
        [
            (value, rising, dark),
            (falling, value, dark),
            (dark, value, rising),
            (dark, falling, value),
            (rising, dark, value),
            (value, dark, falling),
        ]
    ):
        chosen = sector == number
        for channel, plane in enumerate(channels):
            out[chosen, channel] = plane[chosen]
    # What rounding in float64 takes from a whole level is given back.
    return to_levels(np.clip(out, 0, 1) + 1e-12)


def gaussian_blur(levels: Levels, sigma: float, window: tuple[int, int]) -> Levels:
    """With a window of (vertical, horizontal) pixels."""
    out = levels.astype(np.float64)
    for axis, size in enumerate(window):
        reach = size // 2
        place = np.arange(-reach, reach + 1)
        weights = np.exp(-0.5 * (place / float(sigma)) ** 2)
        weights /= weights.sum()
        around = [(0, 0)] * 3
        around[axis] = (reach, reach)
        larger = np.pad(out, around, mode="reflect")
        length = levels.shape[axis]
        out = sum(
            weight * np.take(larger, range(start, start + length), axis=axis)
            for start, weight in enumerate(weights)
        )
    return np.rint(out).astype(np.uint8)


def smooth(levels: Levels) -> Levels:
    return np.asarray(Image.fromarray(levels).filter(ImageFilter.SMOOTH))


def channel_contrast(levels: Levels, factor: float) -> Levels:
    """PIX's `adjust_contrast`, rounded to levels."""
    mean = levels.mean(axis=(0, 1), dtype=np.float64)
    return np.rint(np.clip(factor * (levels - mean) + mean, 0, 255)).astype(np.uint8)
