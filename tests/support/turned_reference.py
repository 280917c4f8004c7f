"""Rotations, affine maps and perspectives once more, in Pillow: what warped frames must come to.

Maps are put together from the steps that torchvision's documentation names. Of gpufeed only the
drawn numbers are used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Levels = npt.NDArray[np.uint8]
Colour = tuple[int, int, int]

HOW = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR}


def turn(angle: float) -> npt.NDArray[np.float64]:
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    return np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])


def shift(x: float, y: float) -> npt.NDArray[np.float64]:
    return np.array([[1, 0, x], [0, 1, y], [0, 0, 1.0]])


def affine_coefficients(
    p: dict[str, Any], place: int, center: tuple[float, float]
) -> tuple[float, ...]:
    """The inverse map of `affine`, as Pillow takes it."""
    shear_x, shear_y = np.radians(p["shear"][place])
    across = np.array([[1, -math.tan(shear_x), 0], [0, 1, 0], [0, 0, 1]])
    down = np.array([[1, 0, 0], [-math.tan(shear_y), 1, 0], [0, 0, 1]])
    scale = np.diag([p["scale"][place], p["scale"][place], 1.0])
    back = shift(-center[0], -center[1])
    forward = shift(*center) @ shift(*p["translate"][place])
    whole = forward @ turn(p["angle"][place]) @ scale @ down @ across @ back
    return tuple(np.linalg.inv(whole).ravel()[:6].tolist())


def perspective_coefficients(
    corners: npt.NDArray[np.int64], height: int, width: int
) -> tuple[float, ...]:
    """The map that takes `corners`, (4, 2), to the image's own, as Pillow takes it."""
    onto = [(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)]
    rows, right = [], []
    for (x, y), (u, v) in zip(corners.tolist(), onto, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        right += [u, v]
    solved = np.linalg.lstsq(np.array(rows, float), np.array(right, float), rcond=None)[0]
    return tuple(solved.tolist())


def rotated(
    levels: Levels,
    angle: float,
    how: str,
    fill: Colour,
    *,
    center: tuple[float, float] | None = None,
    expand: bool = False,
) -> Levels:
    image = Image.fromarray(levels)
    return np.asarray(image.rotate(angle, HOW[how], center=center, expand=expand, fillcolor=fill))


def mapped(levels: Levels, coefficients: tuple[float, ...], how: str, fill: Colour) -> Levels:
    """Six coefficients for an affine map, eight for a perspective."""
    affine = len(coefficients) == 6
    kind = Image.Transform.AFFINE if affine else Image.Transform.PERSPECTIVE
    image = Image.fromarray(levels)
    return np.asarray(image.transform(image.size, kind, coefficients, HOW[how], fillcolor=fill))
