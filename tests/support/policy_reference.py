"""Operations of policies once more, one record at a time, in Pillow: what the graph must come to.

Written from Pillow's own operations and, where they are torchvision's, from the arguments that it
calls them with. Of gpufeed only the drawn numbers are used.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageEnhance, ImageOps

Levels = npt.NDArray[np.uint8]
Colour = tuple[int, int, int]

RESAMPLING = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR}

MOVES = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"}


def _posterize(image: Image.Image, bits: float) -> Image.Image:
    return image.point([level & ~(2 ** (8 - int(bits)) - 1) for level in range(256)] * 3)


def _solarize_add(image: Image.Image, add: float) -> Image.Image:
    return image.point([v + int(add) if v < 128 else v for v in range(256)] * 3)


ON_LEVELS: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "Identity": lambda image, _: image,
    "Brightness": lambda image, factor: ImageEnhance.Brightness(image).enhance(factor),
    "Color": lambda image, factor: ImageEnhance.Color(image).enhance(factor),
    "Contrast": lambda image, factor: ImageEnhance.Contrast(image).enhance(factor),
    "Sharpness": lambda image, factor: ImageEnhance.Sharpness(image).enhance(factor),
    "Posterize": _posterize,
    "Solarize": lambda image, threshold: ImageOps.solarize(image, threshold),
    "SolarizeAdd": _solarize_add,
    "AutoContrast": lambda image, _: ImageOps.autocontrast(image),
    "Equalize": lambda image, _: ImageOps.equalize(image),
    "Invert": lambda image, _: ImageOps.invert(image),
}


def moved(image: Image.Image, name: str, value: float, fill: Colour, how: str) -> Image.Image:
    """One of `MOVES`: a slope, pixels right or down, degrees counterclockwise."""
    if name == "Rotate":
        return image.rotate(value, RESAMPLING[how], fillcolor=fill)
    coefficients = {
        "ShearX": (1, value, 0, 0, 1, 0),
        "ShearY": (1, 0, 0, value, 1, 0),
        "TranslateX": (1, 0, -value, 0, 1, 0),
        "TranslateY": (1, 0, 0, 0, 1, -value),
    }[name]
    return image.transform(
        image.size, Image.Transform.AFFINE, coefficients, RESAMPLING[how], fillcolor=fill
    )


def operated(levels: Levels, name: str, value: float, fill: Colour, how: str) -> Levels:
    image = Image.fromarray(levels)
    if name in MOVES:
        return np.asarray(moved(image, name, value, fill, how))
    return np.asarray(ON_LEVELS[name](image, value))


def from_inside(shape: tuple[int, ...], name: str, value: float) -> npt.NDArray[np.bool_]:
    """Which pixels come from more than a pixel inside of the image."""
    height, width = shape[:2]
    inner = np.zeros((height, width, 3), np.uint8)
    inner[2:-2, 2:-2] = 255
    return operated(inner, name, value, (0, 0, 0), "nearest")[..., 0] == 255
