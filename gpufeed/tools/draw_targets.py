"""Boxes and points, drawn on the images that they go with."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

__all__ = ["mark"]

Color = tuple[int, int, int]

_COLORS = 11
"""As many as NABirds has parts; labels and points take turns."""
_EDGE: Color = (20, 20, 20)
"""Around what is drawn, so that it is seen on any image."""


def mark(images: npt.NDArray[np.uint8], targets: Mapping[str, Any]) -> npt.NDArray[np.uint8]:
    """Return copies of images with their boxes and visible points drawn on them.

    A box is drawn around the pixels in it, as far as there is room; colours are those of labels,
    and of the points' places in their list.

    Args:
        images: uint8 (n, height, width, 3).
        targets: of one view of a batch, each only if there: `boxes` with `box_labels`, as lists of
            (x0, y0, x1, y1), and `points` with `point_visible`.
    """
    marked = []
    for place, levels in enumerate(images):
        image = Image.fromarray(levels)
        pen = ImageDraw.Draw(image)
        if "boxes" in targets:
            pairs = zip(targets["boxes"][place], targets["box_labels"][place], strict=True)
            for box, label in pairs:
                _draw_box(pen, box, _color(int(label)))
        if "points" in targets:
            radius = max(min(image.size) // 70, 2)
            for number, (x, y) in enumerate(targets["points"][place]):
                if targets["point_visible"][place][number]:
                    around = (x - radius, y - radius, x + radius, y + radius)
                    pen.ellipse(around, fill=_color(number), outline=_EDGE)
        marked.append(np.asarray(image))
    return np.stack(marked)


def _draw_box(pen: ImageDraw.ImageDraw, box: npt.NDArray[np.float32], color: Color) -> None:
    x0, y0 = np.floor(box[:2]).astype(int).tolist()
    x1, y1 = (np.ceil(box[2:]).astype(int) - 1).tolist()  # the last pixels in it
    for grown, ink in ((2, _EDGE), (1, color), (0, color)):
        pen.rectangle((x0 - grown, y0 - grown, x1 + grown, y1 + grown), outline=ink)


def _color(number: int) -> Color:
    # Steps of a number that shares no factor with theirs, so that neighbours differ.
    hue = number * 4 % _COLORS / _COLORS
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.85, 1.0)
    return round(red * 255), round(green * 255), round(blue * 255)
