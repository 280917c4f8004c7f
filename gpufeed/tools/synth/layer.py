"""Shapes that are pasted into a scene at half size, which softens their edges."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageColor, ImageDraw

__all__ = ["CIRCLE", "Box", "Color", "Layer", "blend", "colors"]

CIRCLE = np.array([(math.cos(a), math.sin(a)) for a in np.linspace(0, math.tau, 25)])

Color = tuple[int, ...]
Box = tuple[int, int, int, int]
"""x, y, width, height in pixels."""


def colors(text: str) -> list[Color]:
    """Return colours from hexadecimal codes separated by spaces."""
    return [ImageColor.getrgb(f"#{each}") for each in text.split()]


def blend(color: Color, other: Color, share: float) -> Color:
    """Return a mix of two colours, with this share of the other."""
    return tuple(round(a + (b - a) * share) for a, b in zip(color, other, strict=True))


class Layer:
    """Shapes with a mask, in the coordinates of the image.

    Args:
        box: the part of the image that the layer covers at least.
        base: the colour of the background, which blends into the edges of shapes.
    """

    def __init__(self, box: Box, base: Color) -> None:
        x, y, width, height = box
        # A pixel of the scene is 2 x 2 pixels of the image, so the layer's edges are even.
        self.corner = (x // 2 * 2, y // 2 * 2)
        size = (
            -(-(x + width) // 2) * 2 - self.corner[0],
            -(-(y + height) // 2) * 2 - self.corner[1],
        )
        self.color, self.mask = Image.new("RGB", size, base), Image.new("L", size, 0)
        self._pen, self._mask_pen = ImageDraw.Draw(self.color), ImageDraw.Draw(self.mask)

    def polygon(self, points: npt.ArrayLike, color: Color, opacity: int = 255) -> None:
        """Fill a polygon of points (n, 2)."""
        local = self._local(points)
        self._pen.polygon(local, color)
        self._mask_pen.polygon(local, opacity)

    def line(self, points: npt.ArrayLike, color: Color, width: float, opacity: int = 255) -> None:
        """Draw a line through points (n, 2)."""
        local, thick = self._local(points), max(1, round(width))
        self._pen.line(local, color, thick, "curve")
        self._mask_pen.line(local, opacity, thick, "curve")

    def paste(self, scene: Image.Image) -> None:
        """Paste the layer into the scene, which is half as large as the image."""
        at = (self.corner[0] // 2, self.corner[1] // 2)
        scene.paste(self.color.reduce(2), at, self.mask.reduce(2))

    def _local(self, points: npt.ArrayLike) -> list[float]:
        local: list[float] = (np.asarray(points) - self.corner).ravel().tolist()
        return local
