"""torchvision v2's ColorJitter: up to four operations, in an order drawn for each image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpufeed.rng import BatchRng
from gpufeed.transforms import arguments
from gpufeed.transforms.base import Params, PixelTransform, Records
from gpufeed.transforms.select import Nodes, where

__all__ = ["ColorJitter"]

Jitter = float | Sequence[float] | None

_OPERATIONS = ("brightness", "contrast", "saturation", "hue")
"""Functions of `operators.colour`, the cheapest first."""


class ColorJitter(PixelTransform):
    """Change brightness, contrast, saturation and hue by random factors, in random order.

    As in torchvision, the order is drawn for each image and each operation clips values to 0..255.
    (Without the clipping, the first three could be done at once in any order. That would hardly be
    cheaper, and be off by 1 on average and by dozens at worst.)

    Args:
        brightness: the factor is drawn from 1 - brightness, but not below 0, to 1 + brightness; or
            from (low, high).
        contrast: likewise.
        saturation: likewise.
        hue: the rotation, in turns, is drawn from -hue to hue, hue being 0.5 at most; or from
            (low, high).
    """

    def __init__(
        self,
        brightness: Jitter = None,
        contrast: Jitter = None,
        saturation: Jitter = None,
        hue: Jitter = None,
    ) -> None:
        self.brightness = arguments.check_jitter("brightness", brightness)
        self.contrast = arguments.check_jitter("contrast", contrast)
        self.saturation = arguments.check_jitter("saturation", saturation)
        self.hue = arguments.check_jitter("hue", hue, centre=0.0, low=-0.5, high=0.5)

    def _bounds(self) -> dict[str, tuple[float, float]]:
        """Return the bounds of the operations that are not left out, the cheapest first."""
        bounds = {name: getattr(self, name) for name in _OPERATIONS}
        return {name: each for name, each in bounds.items() if each is not None}

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw each operation's number, float64 (n,), and whether each step applies, bool (n,)."""
        bounds = self._bounds()
        if not bounds:
            return {}
        # One call, since each call costs as much as this one.
        unit = rng.uniform(size=2 * len(bounds))
        order = unit[:, len(bounds) :].argsort(axis=1)
        drawn: Params = {
            name: low + unit[:, column] * (high - low)
            for column, (name, (low, high)) in enumerate(bounds.items())
        }
        rows, done = np.arange(len(order)), np.zeros(len(order), dtype=np.int64)
        # A last column that matches no operation, for records that have done all of theirs.
        order = np.pad(order, ((0, 0), (0, 1)), constant_values=len(bounds))
        for step, operation in enumerate(_steps(len(bounds))):
            applies = order[rows, done] == operation
            done += applies
            if operation < len(bounds) - 1:
                drawn[f"step{step}"] = applies
        return drawn

    def build(self, image: Any, params: Nodes) -> Any:
        """Apply the operations."""
        from gpufeed.transforms.operators import colour

        names = list(self._bounds())
        for step, operation in enumerate(_steps(len(names))):
            name = names[operation]

            def change(image: Any, own: Nodes, name: str = name) -> Any:
                return getattr(colour, name)(image, own["number"])

            number = {"number": params[name]}
            if operation == len(names) - 1:
                # This operation has a single step, so it applies to every image.
                image = change(image, number)
            else:
                image = where(params[f"step{step}"], image, change, number)
        return image


def _steps(count: int) -> list[int]:
    """Return a sequence of operations that contains all their orders as subsequences.

    For three operations it is 0 1 0 2 0 1 0: leaving steps out gives any of the six orders. The
    last operation occurs once, the one before it twice and so on, so the cheapest occurs most.
    """
    if not count:
        return []
    before = _steps(count - 1)
    return [*before, count - 1, *before]
