"""Shapes that are pasted into a scene of half their size, which softens their edges."""

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
    """Return the colours written in hexadecimal, with blanks between them."""
    return [ImageColor.getrgb(f"#{each}") for each in text.split()]


def blend(color: Color, other: Color, share: float) -> Color:
    """Return a mix of two colours, with this share of the other."""
    return tuple(round(a + (b - a) * share) for a, b in zip(color, other, strict=True))


class Layer:
    """Shapes, and a mask of where they are; coordinates are those of the image.

    Args:
        box: the part of the image that the layer covers at least.
        base: the colour where nothing is drawn, which mixes into the edges.
    """

    def __init__(self, box: Box, base: Color) -> None:
        x, y, width, height = box
        # The scene's pixels are two by two of the image's, so the layer has even edges.
        self.corner = (x // 2 * 2, y // 2 * 2)
        size = (
            -(-(x + width) // 2) * 2 - self.corner[0],
            -(-(y + height) // 2) * 2 - self.corner[1],
        )
        self.color, self.mask = Image.new("RGB", size, base), Image.new("L", size, 0)
        self._pen, self._mask_pen = ImageDraw.Draw(self.color), ImageDraw.Draw(self.mask)

    def polygon(self, points: npt.ArrayLike, color: Color, opacity: int = 255) -> None:
        """Fill a polygon of points (n, 2)."""
        own = self._own(points)
        self._pen.polygon(own, color)
        self._mask_pen.polygon(own, opacity)

    def line(self, points: npt.ArrayLike, color: Color, width: float, opacity: int = 255) -> None:
        """Draw a line through points (n, 2)."""
        own, thick = self._own(points), max(1, round(width))
        self._pen.line(own, color, thick, "curve")
        self._mask_pen.line(own, opacity, thick, "curve")

    def paste(self, scene: Image.Image) -> None:
        """Set the layer into the scene, which is half as large as the image."""
        at = (self.corner[0] // 2, self.corner[1] // 2)
        scene.paste(self.color.reduce(2), at, self.mask.reduce(2))

    def _own(self, points: npt.ArrayLike) -> list[float]:
        own: list[float] = (np.asarray(points) - self.corner).ravel().tolist()
        return own
