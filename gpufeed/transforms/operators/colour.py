"""Operations on pixel values: what colour transforms and policies are made of.

Each takes a `DataNode` of uint8 HWC RGB images, on the CPU or the GPU, and CPU `DataNode`s with one
number per record. Each returns images of the same size and type. The operations follow the
functions of the same names in torchvision v2, applied to Pillow images unless stated otherwise:
those truncate where DALI rounds. `tests/test_colour.py` bounds the differences.

All of them work inside `where`. This is why none uses an array constant: in a DALI graph, a
constant belongs to the whole batch and cannot be combined with a part of it.
"""

from __future__ import annotations

from typing import Any

from nvidia.dali import fn, math, types

__all__ = [
    "autocontrast",
    "brightness",
    "channel_contrast",
    "contrast",
    "equalize",
    "gamma",
    "gaussian_blur",
    "grayscale",
    "hue",
    "invert",
    "jpeg",
    "posterize",
    "saturation",
    "sharpness",
    "solarize",
    "solarize_add",
]

_TRUNCATE = -0.4999
"""Added before a cast, turns DALI's rounding to the nearest integer into truncation.

Slightly less than a half, since float32 rounding may leave a whole number a little short.
"""

_SCALE = 255.999
"""torchvision multiplies 0..1 by this factor, then truncates, to get uint8."""


def brightness(image: Any, factor: Any) -> Any:
    """Multiply by `factor`, 0 or more."""
    return fn.brightness_contrast(image, brightness=factor, brightness_shift=_TRUNCATE / 255)


def contrast(image: Any, factor: Any) -> Any:
    """Scale the distance from the image's mean grey, rounded to an integer, by `factor` >= 0."""
    mean = math.floor(fn.reductions.mean(_grey(image), dtype=types.FLOAT) + 0.5)
    shift = (1.0 - factor) * mean + _TRUNCATE
    if image.device == "gpu":
        # fn.brightness_contrast takes its per-record arguments from the CPU only.
        return _to_uint8(image * factor + shift)
    return fn.brightness_contrast(image, brightness=factor, brightness_shift=shift * (1 / 255))


def channel_contrast(image: Any, factor: Any) -> Any:
    """Scale each channel's distance from its own mean by `factor`, 0 or more; round.

    As PIX and TensorFlow do.
    """
    mean = fn.reductions.mean(image, axes=(0, 1), keep_dims=True, dtype=types.FLOAT)
    return _to_uint8(image * factor + mean * (1.0 - factor))


def saturation(image: Any, factor: Any) -> Any:
    """Scale each pixel's distance from its grey, an integer, by `factor`, 0 or more."""
    return _to_uint8(image * factor + _grey(image) * (1.0 - factor) + _TRUNCATE)


def grayscale(image: Any) -> Any:
    """Set all three channels to the pixel's grey."""
    return fn.color_space_conversion(_grey(image), image_type=types.GRAY, output_type=types.RGB)


def hue(image: Any, shift: Any) -> Any:
    """Rotate the hue in HSV by `shift` turns, -0.5 to 0.5, as torchvision does for tensors.

    For Pillow images torchvision has 256 hues only.
    """
    signed = fn.cast(image, dtype=types.INT16)
    red, green, blue = signed[:, :, 0:1], signed[:, :, 1:2], signed[:, :, 2:3]
    high, low = math.max(green, blue), math.min(green, blue)
    value = math.max(red, high)
    chroma = value - math.min(red, low)
    # The hue in sixths of a turn times the chroma, which avoids dividing by it. A branch-free way
    # to order three channels, from Hocevar, "Fast branchless RGB to HSV conversion" (2013).
    green_below, red_below = green < blue, red < high
    sector = green_below * (12 * red_below - 6) - 2 * red_below
    hexagon = math.abs(chroma * sector + (math.min(red, high) - low))
    # Everything below is linear in these three, so they are scaled here.
    value, chroma, hexagon = (plane * (_SCALE / 255) for plane in (value, chroma, hexagon))
    # A channel is value + chroma - clamp(distance, chroma, 2 chroma), where distance / chroma is in
    # sixths of a turn: 0 where the hue is the channel's own, 3 where it is the opposite one.
    turn = shift * 6.0
    offset = fn.stack(turn + 3.0, turn + 1.0, turn + 5.0)
    offset = offset - 6.0 * math.floor(offset * (1 / 6))
    distance = math.abs(math.abs((hexagon - 6.0 * chroma) + chroma * offset) - 3.0 * chroma)
    clamped = math.min(math.max(distance, chroma), 2.0 * chroma)
    return _to_uint8((value + chroma + _TRUNCATE) - clamped)


def sharpness(image: Any, factor: Any) -> Any:
    """Scale the distance from the smoothed image by `factor`, 0 or more; keep the outermost pixels.

    Rounds where Pillow truncates. Images must be at least 3 pixels high and wide.
    """
    edge = (1.0 - factor) * (1 / 13)
    centre = factor + 5.0 * edge
    kernel = fn.reshape(fn.stack(*[edge] * 4, centre, *[edge] * 4), shape=(3, 3))
    inner = _filter(image, kernel, mode="valid")
    middle = fn.cat(image[1:-1, :1], inner, image[1:-1, -1:], axis=1)
    return fn.cat(image[:1], middle, image[-1:], axis=0)


def posterize(image: Any, bits: Any) -> Any:
    """Keep the `bits` highest bits of each value, 0 to 8."""
    bits = fn.cast(bits, dtype=types.INT32)
    return image & fn.cast((255 << (8 - bits)) & 255, dtype=types.UINT8)


def solarize(image: Any, threshold: Any) -> Any:
    """Invert values of `threshold` or more."""
    return image ^ ((image >= threshold) * types.Constant(255, dtype=types.UINT8))


def solarize_add(image: Any, addend: Any) -> Any:
    """Add `addend`, 0 to 128, to values below 128."""
    return image + (image < 128) * fn.cast(addend, dtype=types.UINT8)


def invert(image: Any) -> Any:
    """Turn value v into 255 - v."""
    return image ^ types.Constant(255, dtype=types.UINT8)


def autocontrast(image: Any) -> Any:
    """Stretch each channel to 0..255; leave a channel of a single value as it is."""
    per_channel: dict[str, Any] = {"axes": (0, 1), "keep_dims": True}
    low = fn.cast(fn.reductions.min(image, **per_channel), dtype=types.FLOAT)
    span = fn.reductions.max(image, **per_channel) - low
    flat = span == 0.0
    scale = (255.0 * (1.0 - flat) + flat) / (span + flat)
    return _to_uint8(image * scale + (_TRUNCATE - low * scale * (1.0 - flat)))


def equalize(image: Any) -> Any:
    """Equalize the histogram of each channel."""
    # DALI counts the pixels up to a value, Pillow those below it: the same for inverted values.
    return invert(fn.equalize(invert(image)))


def gamma(image: Any, gamma: Any) -> Any:
    """Raise values, scaled to 0..1, to the power of `gamma`, 0 or more."""
    return _to_uint8((image * (1 / 255)) ** gamma * _SCALE + _TRUNCATE)


def gaussian_blur(image: Any, across: Any, down: Any) -> Any:
    """Blur with each record's own weights, (width,) and (height,): odd lengths, sums of 1.

    The border is reflected about the centres of the outermost pixels. Rounds after the rows and
    after the columns, which fn.gaussian_blur does not, but that takes five times as long.
    """
    rows = _filter(image, fn.expand_dims(across, axes=0))
    return _filter(rows, fn.expand_dims(down, axes=1))


def jpeg(image: Any, quality: Any) -> Any:
    """Encode as JPEG of `quality` 1 to 100, with chroma at half resolution, and decode again."""
    return fn.jpeg_compression_distortion(image, quality=quality)


def _grey(image: Any) -> Any:
    return fn.color_space_conversion(image, image_type=types.RGB, output_type=types.GRAY)


def _filter(image: Any, kernel: Any, **options: Any) -> Any:
    return fn.filter(image, kernel.gpu() if image.device == "gpu" else kernel, **options)


def _to_uint8(values: Any) -> Any:
    """Round to the nearest integer and clamp to 0..255."""
    return fn.cast(values, dtype=types.UINT8)
