"""Operations on levels, as DALI operators: what colour transforms and policies are made of.

Each takes a `DataNode` of uint8 HWC RGB pictures, on the CPU or the GPU, and a CPU `DataNode` with
a number for each record, and returns pictures of the same size and type. They mean what torchvision
v2's functions of these names mean, of Pillow's pictures unless said otherwise, which cut fractions
off rather than round; `tests/test_colour.py` says to how many levels they agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "autocontrast",
    "brightness",
    "contrast",
    "equalize",
    "gamma",
    "gaussian_blur",
    "grayscale",
    "hue",
    "invert",
    "jpeg",
    "linear",
    "posterize",
    "saturation",
    "sharpness",
    "solarize",
]

_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""ITU-R BT.601's weights, by which Pillow turns RGB to grey."""

_CUT = -0.4999
"""Makes rounding to the nearest level, which is all that DALI has, cut fractions off; a hair less
than a half, since sums that come to a level may fall short of it by what float32 rounds."""

_SCALE = 255.999
"""torchvision turns 0..1 into levels with this factor, cutting fractions off."""


def brightness(image: Any, factor: Any) -> Any:
    """Multiply by `factor`, 0 or more."""
    from nvidia.dali import fn

    return fn.brightness_contrast(image, brightness=factor, brightness_shift=_CUT / 255)


def contrast(image: Any, factor: Any) -> Any:
    """Move away from the picture's mean grey, a whole level, by `factor`, 0 or more."""
    from nvidia.dali import fn, math, types

    mean = math.floor(fn.reductions.mean(_grey(image), dtype=types.FLOAT) + 0.5)
    shift = (1.0 - factor) * mean + _CUT
    if image.device == "gpu":
        # The operator below takes its numbers on the CPU only.
        return _to_levels(image * factor + shift)
    return fn.brightness_contrast(image, brightness=factor, brightness_shift=shift * (1 / 255))


def saturation(image: Any, factor: Any) -> Any:
    """Move each pixel away from its grey by `factor`, 0 or more."""
    from nvidia.dali import types

    grey = types.Constant(np.tile(_GREY, (3, 1)))
    kept = types.Constant(np.eye(3, dtype=np.float32))
    return linear(image, kept * factor + grey * (1.0 - factor))


def linear(image: Any, matrix: Any, offset: Any = 0.0) -> Any:
    """Multiply each pixel by `matrix`, (3, 3) from RGB to RGB, and add `offset`, (3,) levels."""
    from nvidia.dali import fn, types

    cut = types.Constant(np.full(3, _CUT, dtype=np.float32))
    return fn.coord_transform(image, M=matrix, T=cut + offset, dtype=types.UINT8)


def grayscale(image: Any) -> Any:
    """Make all three channels the pixel's grey."""
    from nvidia.dali import fn, types

    grey = _grey(image)
    return fn.color_space_conversion(grey, image_type=types.GRAY, output_type=types.RGB)


def hue(image: Any, shift: Any) -> Any:
    """Turn the hue by `shift`, in [-0.5, 0.5] of a whole turn, in HSV, as torchvision of tensors.

    Pillow's pictures know 256 hues only.
    """
    from nvidia.dali import math, types

    # Everything is proportional to levels, so the factor may as well come first.
    scaled = image * (_SCALE / 255)
    red, green, blue = scaled[:, :, 0:1], scaled[:, :, 1:2], scaled[:, :, 2:3]
    high, low = math.max(green, blue), math.min(green, blue)
    value = math.max(red, high)
    chroma = value - math.min(red, low)
    # The hue in sixths of a turn times the chroma, which saves dividing by it.
    swapped, second = green < blue, red < high
    hexagon = math.abs(
        chroma * (swapped * (12 * second - 6) - 2 * second) + (math.min(red, high) - low)
    )
    # A channel is value - chroma * clamp(|k - 3| - 1), k in [0, 6) sixths from its opposite hue.
    place = shift * 6.0 + types.Constant(np.array([3, 1, 5], dtype=np.float32))
    place = place - 6.0 * math.floor(place * (1 / 6))
    away = math.abs(math.abs((hexagon - 6.0 * chroma) + chroma * place) - 3.0 * chroma)
    dark = math.min(math.max(away, chroma), 2.0 * chroma)
    return _to_levels((value + chroma + _CUT) - dark)


def sharpness(image: Any, factor: Any) -> Any:
    """Move away from the smoothed picture by `factor`, 0 or more; the outermost pixels stay.

    Rounds where Pillow cuts off.
    """
    from nvidia.dali import fn, types

    smooth = np.ones((3, 3), dtype=np.float32)
    smooth[1, 1] = 5.0
    same = np.zeros((3, 3), dtype=np.float32)
    same[1, 1] = 1.0
    kernel = types.Constant(same) * factor + types.Constant(smooth / 13) * (1.0 - factor)
    if image.device == "gpu":
        kernel = kernel.gpu()
    inner = fn.filter(image, kernel, mode="valid")
    middle = fn.cat(image[1:-1, :1], inner, image[1:-1, -1:], axis=1)
    return fn.cat(image[:1], middle, image[-1:], axis=0)


def posterize(image: Any, bits: Any) -> Any:
    """Keep the `bits`, 0 to 8, highest bits of a level."""
    from nvidia.dali import fn, types

    return image & fn.cast((255 << (8 - bits)) & 255, dtype=types.UINT8)


def solarize(image: Any, threshold: Any) -> Any:
    """Invert levels of `threshold` or more."""
    from nvidia.dali import types

    return image ^ ((image >= threshold) * types.Constant(255, dtype=types.UINT8))


def invert(image: Any) -> Any:
    """Turn level v into 255 - v."""
    from nvidia.dali import types

    return image ^ types.Constant(255, dtype=types.UINT8)


def autocontrast(image: Any) -> Any:
    """Stretch each channel to 0..255; a channel of one level stays."""
    from nvidia.dali import fn, types

    whole: dict[str, Any] = {"axes": (0, 1), "keep_dims": True}
    low = fn.cast(fn.reductions.min(image, **whole), dtype=types.FLOAT)
    span = fn.reductions.max(image, **whole) - low
    flat = span == 0.0
    scale = (255.0 * (1.0 - flat) + flat) / (span + flat)
    return _to_levels(image * scale + (_CUT - low * scale * (1.0 - flat)))


def equalize(image: Any) -> Any:
    """Make each channel's levels equally frequent."""
    from nvidia.dali import fn

    # DALI counts the pixels up to a level, Pillow those below it: the same, seen from the top.
    return invert(fn.equalize(invert(image)))


def gamma(image: Any, gamma: Any) -> Any:
    """Raise levels, on the scale 0..1, to the power of `gamma`, 0 or more."""
    return _to_levels((image * (1 / 255)) ** gamma * _SCALE + _CUT)


def gaussian_blur(image: Any, sigma: Any, window: Any) -> Any:
    """Blur; outside, the picture goes on mirrored at the centre of its outermost pixels.

    Args:
        image: pictures.
        sigma: pixels, above 0, one number or (vertical, horizontal).
        window: odd number of pixels that each is made of, likewise.
    """
    from nvidia.dali import fn

    return fn.gaussian_blur(image, sigma=sigma, window_size=window)


def jpeg(image: Any, quality: Any) -> Any:
    """Encode as JPEG, chroma halved, of `quality` 1 to 100, and decode again."""
    from nvidia.dali import fn

    return fn.jpeg_compression_distortion(image, quality=quality)


def _grey(image: Any) -> Any:
    from nvidia.dali import fn, types

    return fn.color_space_conversion(image, image_type=types.RGB, output_type=types.GRAY)


def _to_levels(numbers: Any) -> Any:
    """Round to the nearest level, within 0..255."""
    from nvidia.dali import fn, types

    return fn.cast(numbers, dtype=types.UINT8)
