"""torchvision v2's ColorJitter: up to four operations in an order of each image's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpufeed.rng import BatchRng
from gpufeed.transforms import checks, ops
from gpufeed.transforms.base import Params, PixelTransform, Records
from gpufeed.transforms.select import Nodes, where

__all__ = ["ColorJitter"]

Jitter = float | Sequence[float] | None

# By what they cost in the graph, the cheapest first.
_OPERATIONS = {
    "brightness": ops.brightness,
    "contrast": ops.contrast,
    "saturation": ops.saturation,
    "hue": ops.hue,
}


class ColorJitter(PixelTransform):
    """Change brightness, contrast, saturation and hue by random factors, in random order.

    The order is drawn for each image, and each operation cuts levels to 0..255, as in
    torchvision. (The first three, were it not for that, could be done at once in any order; it
    would be hardly cheaper, and a level off on average, dozens at worst.)

    Args:
        brightness: factors are drawn from 1 - brightness, but not below 0, to 1 + brightness; or
            from (low, high).
        contrast: likewise.
        saturation: likewise.
        hue: turns are drawn from -hue to hue, at most half a turn, or from (low, high).
    """

    def __init__(
        self,
        brightness: Jitter = None,
        contrast: Jitter = None,
        saturation: Jitter = None,
        hue: Jitter = None,
    ) -> None:
        self.brightness = checks.check_jitter("brightness", brightness)
        self.contrast = checks.check_jitter("contrast", contrast)
        self.saturation = checks.check_jitter("saturation", saturation)
        self.hue = checks.check_jitter("hue", hue, centre=0.0, low=-0.5, high=0.5)

    def _ranges(self) -> dict[str, tuple[float, float]]:
        """The operations that do something, the cheapest first, and where numbers come from."""
        ranges = {name: getattr(self, name) for name in _OPERATIONS}
        return {name: bounds for name, bounds in ranges.items() if bounds is not None}

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw the numbers, float64 (n,), and which steps to take: bool (n,) each."""
        ranges = self._ranges()
        if not ranges:
            return {}
        # All at once, which costs what one of them does.
        unit = rng.uniform(size=2 * len(ranges))
        order = unit[:, len(ranges) :].argsort(axis=1)
        drawn: Params = {
            name: low + unit[:, place] * (high - low)
            for place, (name, (low, high)) in enumerate(ranges.items())
        }
        rows, done = np.arange(len(order)), np.zeros(len(order), dtype=np.int64)
        # A column that no operation has, for records whose order is through.
        order = np.pad(order, ((0, 0), (0, 1)), constant_values=len(ranges))
        for step, operation in enumerate(_ruler(len(ranges))):
            now = order[rows, done] == operation
            done += now
            if operation < len(ranges) - 1:
                drawn[f"step{step}"] = now
        return drawn

    def build(self, image: Any, params: Nodes) -> Any:
        """Apply the operations."""
        names = list(self._ranges())
        for step, operation in enumerate(_ruler(len(names))):
            name = names[operation]

            def change(image: Any, own: Nodes, name: str = name) -> Any:
                return _OPERATIONS[name](image, own["number"])

            number = {"number": params[name]}
            if operation == len(names) - 1:
                # It stands ready once only, so nobody leaves it out.
                image = change(image, number)
            else:
                image = where(params[f"step{step}"], image, change, number)
        return image


def _ruler(count: int) -> list[int]:
    """Steps at which operations stand ready: whatever order an image has, it is among them.

    For three it is 0 1 0 2 0 1 0, in which all six orders are found by leaving steps out. The
    last operation comes once, the one before it twice and so on, by what they cost.
    """
    if not count:
        return []
    before = _ruler(count - 1)
    return [*before, count - 1, *before]
