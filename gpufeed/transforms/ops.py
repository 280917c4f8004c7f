"""Operations on levels, as DALI operators: what colour transforms and policies are made of.

Each takes a `DataNode` of uint8 HWC RGB images, on the CPU or the GPU, and a CPU `DataNode` with
a number for each record, and returns images of the same size and type. They mean what torchvision
v2's functions of these names mean, of Pillow's images unless said otherwise, which cut fractions
off rather than round; `tests/transforms/test_colour.py` says to how many levels they agree.

They may be called within `where`. So no array is a constant here: in a graph, a constant belongs to
all records of a batch and cannot meet some of them.
"""

from __future__ import annotations

from typing import Any

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
]

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
    """Move away from the image's mean grey, a whole level, by `factor`, 0 or more."""
    from nvidia.dali import fn, math, types

    mean = math.floor(fn.reductions.mean(_grey(image), dtype=types.FLOAT) + 0.5)
    shift = (1.0 - factor) * mean + _CUT
    if image.device == "gpu":
        # The operator below takes its numbers on the CPU only.
        return _to_levels(image * factor + shift)
    return fn.brightness_contrast(image, brightness=factor, brightness_shift=shift * (1 / 255))


def channel_contrast(image: Any, factor: Any) -> Any:
    """Move each channel away from its own mean by `factor`, 0 or more; rounds.

    As in PIX and TensorFlow.
    """
    from nvidia.dali import fn, types

    mean = fn.reductions.mean(image, axes=(0, 1), keep_dims=True, dtype=types.FLOAT)
    return _to_levels(image * factor + mean * (1.0 - factor))


def saturation(image: Any, factor: Any) -> Any:
    """Move each pixel away from its grey, a whole level, by `factor`, 0 or more."""
    return _to_levels(image * factor + _grey(image) * (1.0 - factor) + _CUT)


def grayscale(image: Any) -> Any:
    """Make all three channels the pixel's grey."""
    from nvidia.dali import fn, types

    grey = _grey(image)
    return fn.color_space_conversion(grey, image_type=types.GRAY, output_type=types.RGB)


def hue(image: Any, shift: Any) -> Any:
    """Turn the hue by `shift`, in [-0.5, 0.5] of a whole turn, in HSV, as torchvision of tensors.

    Pillow's images know 256 hues only.
    """
    from nvidia.dali import fn, math, types

    signed = fn.cast(image, dtype=types.INT16)
    red, green, blue = signed[:, :, 0:1], signed[:, :, 1:2], signed[:, :, 2:3]
    high, low = math.max(green, blue), math.min(green, blue)
    value = math.max(red, high)
    chroma = value - math.min(red, low)
    # The hue in sixths of a turn times the chroma, which saves dividing by it. One of the branch
    # free ways to order three channels, by Hocevar, "Fast branchless RGB to HSV conversion" (2013).
    green_below, red_below = green < blue, red < high
    sector = green_below * (12 * red_below - 6) - 2 * red_below
    hexagon = math.abs(chroma * sector + (math.min(red, high) - low))
    # All that follows is proportional to levels, so their factor may as well come here.
    value, chroma, hexagon = (plane * (_SCALE / 255) for plane in (value, chroma, hexagon))
    # A channel is value + chroma - clamp(away, chroma, 2 chroma), where away / chroma counts sixths
    # of a turn: 0 where the hue is the channel's own, 3 where it is the opposite one.
    turn = shift * 6.0
    place = fn.stack(turn + 3.0, turn + 1.0, turn + 5.0)
    place = place - 6.0 * math.floor(place * (1 / 6))
    away = math.abs(math.abs((hexagon - 6.0 * chroma) + chroma * place) - 3.0 * chroma)
    return _to_levels((value + chroma + _CUT) - math.min(math.max(away, chroma), 2.0 * chroma))


def sharpness(image: Any, factor: Any) -> Any:
    """Move away from the smoothed image by `factor`, 0 or more; the outermost pixels stay.

    Rounds where Pillow cuts off. Images must have three pixels or more each way.
    """
    from nvidia.dali import fn

    edge = (1.0 - factor) * (1 / 13)
    centre = factor + 5.0 * edge
    kernel = fn.reshape(fn.stack(*[edge] * 4, centre, *[edge] * 4), shape=(3, 3))
    inner = _filter(image, kernel, mode="valid")
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


def gaussian_blur(image: Any, across: Any, down: Any) -> Any:
    """Blur with weights for each record, (width,) and (height,), odd and of sum 1.

    Outside, the image goes on mirrored at the centre of its outermost pixels. Rounds after each
    of the two, which DALI's own operator does not, at five times the cost.
    """
    from nvidia.dali import fn

    half = _filter(image, fn.expand_dims(across, axes=0))
    return _filter(half, fn.expand_dims(down, axes=1))


def jpeg(image: Any, quality: Any) -> Any:
    """Encode as JPEG, chroma halved, of `quality` 1 to 100, and decode again."""
    from nvidia.dali import fn

    return fn.jpeg_compression_distortion(image, quality=quality)


def _grey(image: Any) -> Any:
    from nvidia.dali import fn, types

    return fn.color_space_conversion(image, image_type=types.RGB, output_type=types.GRAY)


def _filter(image: Any, kernel: Any, **how: Any) -> Any:
    from nvidia.dali import fn

    return fn.filter(image, kernel.gpu() if image.device == "gpu" else kernel, **how)


def _to_levels(numbers: Any) -> Any:
    """Round to the nearest level, within 0..255."""
    from nvidia.dali import fn, types

    return fn.cast(numbers, dtype=types.UINT8)
