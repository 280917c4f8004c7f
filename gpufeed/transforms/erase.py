"""Random erasing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import arguments
from gpufeed.transforms.base import LateTransform, Made, Params, Records
from gpufeed.transforms.distributions import log_uniform
from gpufeed.transforms.select import Nodes, where

__all__ = ["RandomErasing"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

_ATTEMPTS = 10
_NOISE_KEY = 20170816


class RandomErasing(LateTransform):
    """Erase a rectangle of random area, aspect ratio and position.

    Zhong et al., "Random erasing data augmentation" (AAAI 2020), with torchvision's sampling: it
    draws an area and a log-uniform aspect ratio up to ten times, and takes the first that fits; if
    none fits, nothing is erased. RandomErasing follows the output format, so with `Normalize` a
    value of 0 is the mean colour.

    Args:
        p: probability.
        scale: bounds of the rectangle's area, as a fraction of the image's.
        ratio: bounds of its height divided by its width.
        value: what replaces the pixels: one number or three (RGB), in the output's units; or
            "random" for standard normal noise. The noise is a window, drawn for each record, of one
            fixed field four times as large as the image.
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | Literal["random"] = 0.0,
    ) -> None:
        self.p = arguments.check_probability("p", p)
        self.scale = arguments.check_range("scale", scale)
        if self.scale[1] > 1:
            raise ConfigError(f"scale is {short(scale)}; a fraction of the area is at most 1")
        self.ratio = arguments.check_range("ratio", ratio)
        if isinstance(value, str) and value != "random":
            raise ConfigError(f'value is {short(value)}; it must be one number, three, or "random"')
        self.value: Literal["random"] | tuple[float, float, float] = (
            "random" if value == "random" else arguments.check_triple("value", value)
        )

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw `mask`, bool (n,); `anchor` and `shape`, float32 (n, 2) of (y, x), pixels.

        With random values also `field`, int32 (n, 2): the first pixel of the noise window.
        """
        # All that most records need in one call, which costs as much as drawing one number.
        first = rng.uniform(size=7)
        mask = first[:, 0] < self.p
        height, width, fits = self._attempt(first[:, 1:3], records.height, records.width)
        missing = np.flatnonzero(mask & ~fits)
        if len(missing):
            more = rng.rows(missing).uniform(size=2 * (_ATTEMPTS - 1))
            heights, widths, fit = self._attempt(
                more.reshape(len(missing), -1, 2),
                records.height[missing, None],
                records.width[missing, None],
            )
            rows, first_fit = np.arange(len(missing)), fit.argmax(axis=1)
            height[missing], width[missing] = heights[rows, first_fit], widths[rows, first_fit]
            mask[missing] = fit.any(axis=1)
        height, width = np.where(mask, height, 0), np.where(mask, width, 0)
        top = np.floor(first[:, 3] * (records.height - height + 1))
        left = np.floor(first[:, 4] * (records.width - width + 1))
        params = {
            "mask": mask,
            "anchor": np.stack([top, left], axis=1).astype(np.float32),
            "shape": np.stack([height, width], axis=1).astype(np.float32),
        }
        if self.value == "random":
            sides = np.stack([records.height, records.width], axis=1)
            params["field"] = np.floor(first[:, 5:] * (sides + 1)).astype(np.int32)
        return params

    def _attempt(
        self, unit: Float64, full_height: Int64, full_width: Int64
    ) -> tuple[Int64, Int64, npt.NDArray[np.bool_]]:
        """Return heights, widths and whether they fit, given uniform numbers (..., 2)."""
        share = self.scale[0] + unit[..., 0] * (self.scale[1] - self.scale[0])
        area = share * full_height * full_width
        ratio = log_uniform(unit[..., 1], self.ratio)
        height = np.rint(np.sqrt(area * ratio)).astype(np.int64)
        width = np.rint(np.sqrt(area / ratio)).astype(np.int64)
        return height, width, (height < full_height) & (width < full_width)

    def build(self, image: Any, params: dict[str, Any], made: Made) -> Any:
        """Erase the rectangles of the chosen records."""
        from gpufeed.transforms.operators import regions

        def erase(image: Any, own: Nodes) -> Any:
            if isinstance(self.value, tuple):
                return regions.fill(image, own["anchor"], own["shape"], self.value, made)
            noise = regions.window(own["noise"], own["field"], made)
            return regions.paste(image, noise, own["anchor"], own["shape"])

        own = {name: node for name, node in params.items() if name != "mask"}
        if self.value == "random":
            own["noise"] = regions.constant(_noise(made), made, image.device)
        return where(params["mask"], image, erase, own)


def _noise(made: Made) -> npt.NDArray[np.float32]:
    """Return the noise field, (3, 2 * height, 2 * width) or its HWC transpose, always the same."""
    generator = np.random.Generator(np.random.Philox(key=_NOISE_KEY))
    field = generator.standard_normal((3, 2 * made.height, 2 * made.width), dtype=np.float32)
    return field if made.layout == "NCHW" else np.ascontiguousarray(field.transpose(1, 2, 0))
