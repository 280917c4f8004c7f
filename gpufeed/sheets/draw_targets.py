"""Drawing masks, boxes and points on images, and maps of numbers as images."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

__all__ = ["draw_map", "draw_mask", "draw_targets"]

Color = tuple[int, int, int]

_COLORS = 11
"""The number of NABirds' parts; labels and points cycle through the colours."""
_EDGE: Color = (20, 20, 20)
"""Outline that makes targets visible on any image."""
_MISSING: Color = (40, 60, 130)
"""Pixels of a map that have no value."""


def draw_mask(
    images: npt.NDArray[np.uint8], masks: npt.NDArray[Any], ignored: float
) -> npt.NDArray[np.uint8]:
    """Return copies of images, tinted where their masks are not 0, by value.

    Args:
        images: uint8 (n, height, width, 3).
        masks: integers (n, height, width).
        ignored: the value without a class, which is grey.
    """
    table = np.array([_color(number) for number in range(_COLORS)], dtype=np.float32)
    tint = table[masks % _COLORS]
    tint[masks == ignored] = 128
    mixed = np.where((masks != 0)[..., None], (images + tint) / 2, images)
    return np.asarray(mixed, dtype=np.uint8)


def draw_map(maps: npt.NDArray[np.float32], missing: float) -> npt.NDArray[np.uint8]:
    """Return maps as grey images from their smallest value to their largest.

    Args:
        maps: (n, height, width).
        missing: the value without a meaning, which is blue, as is what is not finite.

    Returns:
        uint8 (n, height, width, 3).
    """
    drawn = np.full((*maps.shape, 3), _MISSING, dtype=np.uint8)
    for values, levels in zip(maps, drawn, strict=True):
        known = np.isfinite(values) & (values != np.float32(missing))
        if known.any():
            shown = values[known].astype(np.float64)
            low, high = shown.min(), shown.max()
            levels[known] = ((shown - low) * (255 / ((high - low) or 1)))[:, None]
    return drawn


def draw_targets(
    images: npt.NDArray[np.uint8], targets: Mapping[str, Any]
) -> npt.NDArray[np.uint8]:
    """Return copies of images with their boxes and visible points drawn on them.

    A box is drawn around the pixels it contains, as far as there is room. The label sets the colour
    of a box, and its place in the list that of a point.

    Args:
        images: uint8 (n, height, width, 3).
        targets: the targets of one view of a batch; `boxes` with `box_labels`, as lists of
            (x0, y0, x1, y1), and `box_points` and `points` with their visibility are optional.
    """
    drawn = []
    for place, levels in enumerate(images):
        image = Image.fromarray(levels)
        pen = ImageDraw.Draw(image)
        if "boxes" in targets:
            pairs = zip(targets["boxes"][place], targets["box_labels"][place], strict=True)
            for box, label in pairs:
                _draw_box(pen, box, _color(int(label)))
        if "box_points" in targets:
            both = (targets["box_points"][place], targets["box_point_visible"][place])
            for points, visible in zip(*both, strict=True):
                _draw_points(pen, points, visible, image.size)
        if "points" in targets:
            _draw_points(pen, targets["points"][place], targets["point_visible"][place], image.size)
        drawn.append(np.asarray(image))
    return np.stack(drawn)


def _draw_box(pen: ImageDraw.ImageDraw, box: npt.NDArray[np.float32], color: Color) -> None:
    x0, y0 = np.floor(box[:2]).astype(int).tolist()
    x1, y1 = (np.ceil(box[2:]).astype(int) - 1).tolist()  # the last pixels inside
    for grown, ink in ((2, _EDGE), (1, color), (0, color)):
        pen.rectangle((x0 - grown, y0 - grown, x1 + grown, y1 + grown), outline=ink)


def _draw_points(
    pen: ImageDraw.ImageDraw, points: Any, visible: Any, size: tuple[int, int]
) -> None:
    radius = max(min(size) // 70, 2)
    for number, (x, y) in enumerate(points):
        if visible[number]:
            around = (x - radius, y - radius, x + radius, y + radius)
            pen.ellipse(around, fill=_color(number), outline=_EDGE)


def _color(number: int) -> Color:
    # 4 is coprime to the number of colours, so successive numbers differ clearly in hue.
    hue = number * 4 % _COLORS / _COLORS
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.85, 1.0)
    return round(red * 255), round(green * 255), round(blue * 255)
