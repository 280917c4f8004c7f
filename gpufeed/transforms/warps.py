"""Rotations, affine maps and perspectives, with torchvision v2's names and defaults."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import arguments
from gpufeed.transforms.base import GeometricTransform, Params, Records
from gpufeed.transforms.frame import Fill, Frame, Sampling, Warp
from gpufeed.transforms.warp_matrices import affine_matrices, perspective_matrices

__all__ = ["RandomAffine", "RandomPerspective", "RandomRotation"]

Float64 = npt.NDArray[np.float64]

_ROUNDING = 1e-4
"""Corners of rotated images are truncated to multiples of this, in pixels, as in torchvision."""


class RandomRotation(GeometricTransform):
    """Rotate by a random angle.

    Args:
        degrees: bounds of the angle, counter-clockwise, or one number for (-degrees, degrees).
        interpolation: "nearest" or "bilinear".
        expand: whether the image grows to hold the whole rotated image. Sizes then differ, so a
            resize or crop must follow.
        center: (x, y) in pixels from the top left corner; None for the image's centre. Cannot be
            combined with `expand`.
        fill: value of pixels from outside the image, 0 to 255; one number or three (RGB).
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Sampling = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: float | Sequence[float] = 0,
    ) -> None:
        self.degrees = _angles("degrees", degrees)
        self.interpolation = arguments.check_sampling(interpolation)
        self.expand = bool(expand)
        self.center = None if center is None else _pair("center", center)
        if self.expand and self.center is not None:
            raise ConfigError(f"center is {short(center)}; it cannot be combined with expand=True")
        self.fill = arguments.check_fill(fill)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw `angle`, float64 (n,), degrees."""
        return {"angle": rng.uniform(*self.degrees)}

    def place(self, frame: Frame, params: Params) -> Frame:
        """Rotate."""
        angle = -params["angle"]
        if not self.expand:
            matrix = affine_matrices(_centers(frame, self.center), angle=angle)
            return frame.warp(_warp(matrix, self.interpolation, self.fill))
        old = frame.size[:, ::-1]
        new = _rotated_sizes(old, params["angle"])
        growth = np.maximum(new - old, 0)
        left, top = (growth // 2).T
        right, bottom = (growth - growth // 2).T
        padded = frame.pad(top, left, bottom, right, self.fill)
        # The result is a crop of the padded image, which is at least as large.
        corner = (padded.size[:, ::-1] - new) // 2
        center = growth // 2 + old / 2
        shift = corner + new / 2 - center
        matrix = affine_matrices(center, angle=angle, translate=shift)
        warped = padded.warp(_warp(matrix, self.interpolation, self.fill))
        return warped.crop(corner[:, 1], corner[:, 0], new[:, 1], new[:, 0])


class RandomAffine(GeometricTransform):
    """Rotate, translate, scale and shear at random, about the image's centre.

    Args:
        degrees: bounds of the angle, clockwise, or one number for (-degrees, degrees).
        translate: largest shift, as fractions of (width, height), 0 to 1; None for no shift.
        scale: bounds of the factor; None for no scaling.
        shear: bounds of the shear along x, or four numbers for x and y, degrees; one number for
            (-shear, shear) along x; None for no shear.
        interpolation: "nearest" or "bilinear".
        fill: value of pixels from outside the image, 0 to 255; one number or three (RGB).
        center: (x, y) in pixels from the top left corner; None for the image's centre.
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: Sampling = "nearest",
        fill: float | Sequence[float] = 0,
        center: Sequence[float] | None = None,
    ) -> None:
        self.degrees = _angles("degrees", degrees)
        self.translate = None if translate is None else _pair("translate", translate)
        if self.translate is not None and not all(0 <= part <= 1 for part in self.translate):
            raise ConfigError(
                f"translate is {short(translate)}; both fractions must be from 0 to 1"
            )
        self.scale = None if scale is None else arguments.check_range("scale", scale)
        self.shear = None if shear is None else _shears(shear)
        self.interpolation = arguments.check_sampling(interpolation)
        self.fill = arguments.check_fill(fill)
        self.center = None if center is None else _pair("center", center)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw `angle` and `scale`, float64 (n,); `translate` in pixels and `shear`, (n, 2)."""
        unit = rng.uniform(size=6)

        def between(column: int, bounds: tuple[float, float]) -> Float64:
            return bounds[0] + unit[:, column] * (bounds[1] - bounds[0])

        translate = np.zeros((len(rng), 2))
        if self.translate is not None:
            sides = np.stack([records.width, records.height], axis=1)
            largest = sides * np.array(self.translate)
            translate = np.rint(largest * (2.0 * unit[:, 1:3] - 1.0))
        shear = np.zeros((len(rng), 2))
        if self.shear is not None:
            shear = np.stack([between(4, self.shear[:2]), between(5, self.shear[2:])], axis=1)
        return {
            "angle": between(0, self.degrees),
            "translate": translate,
            "scale": np.ones(len(rng)) if self.scale is None else between(3, self.scale),
            "shear": shear,
        }

    def place(self, frame: Frame, params: Params) -> Frame:
        """Warp."""
        matrix = affine_matrices(_centers(frame, self.center), **params)
        return frame.warp(_warp(matrix, self.interpolation, self.fill))


class RandomPerspective(GeometricTransform):
    """Move the image's corners inwards at random, a change of perspective.

    The image stays as it is where three corners would be collinear, which happens with small images
    and scales near 1. With scales near 1 the image may also fold over; its boxes are wrong then.

    Args:
        distortion_scale: the largest move of a corner, as a fraction of half the side, 0 to 1.
        p: probability.
        interpolation: "nearest" or "bilinear".
        fill: value of pixels from outside the image, 0 to 255; one number or three (RGB).
    """

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Sampling = "bilinear",
        fill: float | Sequence[float] = 0,
    ) -> None:
        self.distortion_scale = arguments.check_probability("distortion_scale", distortion_scale)
        self.p = arguments.check_probability("p", p)
        self.interpolation = arguments.check_sampling(interpolation)
        self.fill = arguments.check_fill(fill)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw `mask`, bool (n,), and `corners`, int64 (n, 4, 2): where each moves to, (x, y).

        The corners are in clockwise order from the top left.
        """
        mask = rng.bernoulli(self.p)
        unit = rng.uniform(size=8).reshape(len(rng), 4, 2)
        sides = np.stack([records.width, records.height], axis=1)[:, None]
        bound = (self.distortion_scale * (sides // 2)).astype(np.int64) + 1
        offset = np.floor(unit * bound).astype(np.int64)
        far = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
        corners = np.where(far, sides - bound + offset, offset)
        # The map exists only if no three corners are collinear, in the input and in the output.
        mask &= ~_any_collinear(corners) & (sides > 1).all(axis=(1, 2))
        return {"mask": mask, "corners": corners}

    def place(self, frame: Frame, params: Params) -> Frame:
        """Warp."""
        right, bottom = (frame.width - 1).astype(np.float64), (frame.height - 1).astype(np.float64)
        zero = np.zeros(len(frame))
        xs = np.stack([zero, right, right, zero], axis=1)
        ys = np.stack([zero, zero, bottom, bottom], axis=1)
        targets, mask = np.stack([xs, ys], axis=-1), params["mask"]
        matrix = np.tile(np.eye(3), (len(frame), 1, 1))
        corners = params["corners"][mask].astype(np.float64)
        matrix[mask] = perspective_matrices(corners, targets[mask])
        return frame.warp(_warp(matrix, self.interpolation, self.fill, mask))


def _warp(
    matrix: npt.NDArray[Any],
    sampling: Sampling,
    fill: Fill,
    mask: npt.NDArray[np.bool_] | None = None,
) -> Warp:
    mask = np.ones(len(matrix), dtype=np.bool_) if mask is None else mask
    return Warp(matrix.astype(np.float64), mask, sampling, fill)


def _centers(frame: Frame, center: tuple[float, float] | None) -> Float64:
    if center is not None:
        return np.tile(np.array(center, dtype=np.float64), (len(frame), 1))
    return frame.size[:, ::-1] / 2.0


def _rotated_sizes(sizes: npt.NDArray[np.int64], angle: Float64) -> npt.NDArray[np.int64]:
    """Return the sizes (width, height), in whole pixels, that hold rotated images."""
    cos, sin = np.abs(np.cos(np.radians(angle))), np.abs(np.sin(np.radians(angle)))
    width, height = sizes.T
    half = np.stack([width * cos + height * sin, width * sin + height * cos], axis=1) / 2.0
    center = sizes / 2.0
    last = np.ceil(np.trunc((center + half) / _ROUNDING) * _ROUNDING)
    first = np.floor(np.trunc((center - half) / _ROUNDING) * _ROUNDING)
    return np.asarray(last - first).astype(np.int64)


def _any_collinear(corners: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return whether any three of four points, (n, 4, 2), are collinear: bool (n,)."""
    collinear = []
    for one, two, three in itertools.combinations(np.swapaxes(corners, 0, 1), 3):
        (ax, ay), (bx, by) = (two - one).T, (three - one).T
        collinear.append(ax * by == ay * bx)
    return np.asarray(np.any(collinear, axis=0))


def _pair(name: str, value: Any) -> tuple[float, float]:
    try:
        first, second = (float(number) for number in value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} is {short(value)}; it must be two numbers, (x, y)") from None
    if not (math.isfinite(first) and math.isfinite(second)):
        raise ConfigError(f"{name} is {short(value)}; its numbers must be finite")
    return first, second


def _angles(name: str, value: Any) -> tuple[float, float]:
    """Return the bounds of an angle, from one number or two."""
    if arguments.is_number(value):
        if value < 0 or not math.isfinite(value):
            raise ConfigError(f"{name} is {short(value)}; a single number must be 0 or more")
        return 0.0 - float(value), float(value)
    low, high = _pair(name, value)
    if low > high:
        raise ConfigError(f"{name} is {short(value)}; the lower bound must come first")
    return low, high


def _shears(value: Any) -> tuple[float, float, float, float]:
    if isinstance(value, Sequence) and len(value) == 4:
        return (*_angles("shear", value[:2]), *_angles("shear", value[2:]))
    return (*_angles("shear", value), 0.0, 0.0)
