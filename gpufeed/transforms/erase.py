"""Random erasing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import checks
from gpufeed.transforms.base import LateTransform, Made, Params, Records
from gpufeed.transforms.draws import log_uniform

__all__ = ["RandomErasing"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

_ATTEMPTS = 10
_FIELD = 20170816


class RandomErasing(LateTransform):
    """Blot out a rectangle of random area, aspect ratio and place.

    Zhong et al., "Random erasing data augmentation" (AAAI 2020), with torchvision's sampling: ten
    attempts at an area and a log-uniform aspect ratio, of which the first that fits is taken; where
    none fits nothing is erased. It comes after the output format, so that with `Normalize` a value
    of 0 is the mean colour.

    Args:
        p: how often.
        scale: bounds of the rectangle's share of the image.
        ratio: bounds of its height over its width.
        value: what is put there, one number or three (RGB) in the output's own units; or "random",
            normally distributed numbers of mean 0 and deviation 1, a window drawn for each record
            from one field of them that is four times as large as the image.
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | Literal["random"] = 0.0,
    ) -> None:
        self.p = checks.check_probability("p", p)
        self.scale = checks.check_range("scale", scale)
        if self.scale[1] > 1:
            raise ConfigError(f"scale is {scale!r}; a rectangle's share is at most 1")
        self.ratio = checks.check_range("ratio", ratio)
        if isinstance(value, str) and value != "random":
            raise ConfigError(f'value is {value!r}; it must be a number, three, or "random"')
        self.value: Literal["random"] | tuple[float, float, float] = (
            "random" if value == "random" else checks.check_triple("value", value)
        )

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw `mask`, bool (n,); `anchor` and `shape`, float32 (n, 2) of (y, x), pixels.

        With random values also `field`, int32 (n, 2), where the window of the field begins.
        """
        # All that most records need at once, which costs what one number does.
        first = rng.uniform(size=7)
        mask = first[:, 0] < self.p
        height, width, fits = self._attempt(first[:, 1:3], records.height, records.width)
        missing = np.flatnonzero(mask & ~fits)
        if len(missing):
            more = rng.rows(missing).uniform(size=2 * (_ATTEMPTS - 1))
            tall, broad, fit = self._attempt(
                more.reshape(len(missing), -1, 2),
                records.height[missing, None],
                records.width[missing, None],
            )
            rows, chosen = np.arange(len(missing)), fit.argmax(axis=1)
            height[missing], width[missing] = tall[rows, chosen], broad[rows, chosen]
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
        """Return heights, widths and whether they fit, from uniform numbers (..., 2)."""
        share = self.scale[0] + unit[..., 0] * (self.scale[1] - self.scale[0])
        area = share * full_height * full_width
        ratio = log_uniform(unit[..., 1], self.ratio)
        height = np.rint(np.sqrt(area * ratio)).astype(np.int64)
        width = np.rint(np.sqrt(area / ratio)).astype(np.int64)
        return height, width, (height < full_height) & (width < full_width)

    def build(self, image: Any, params: dict[str, Any], made: Made) -> Any:
        """Erase, of the chosen records."""
        from gpufeed.transforms import patch
        from gpufeed.transforms.select import where

        def erased(image: Any, own: dict[str, Any]) -> Any:
            if isinstance(self.value, tuple):
                return patch.fill(image, own["anchor"], own["shape"], self.value)
            noise = patch.window(own["noise"], own["field"], made)
            return patch.paste(image, noise, own["anchor"], own["shape"])

        params = dict(params)
        mask = params.pop("mask")
        if self.value == "random":
            params["noise"] = patch.constant(_noise(made), made, image.device)
        return where(mask, image, erased, params)


def _noise(made: Made) -> npt.NDArray[np.float32]:
    """The field, (3, 2 height, 2 width) or its transpose; the place is drawn, never the field."""
    generator = np.random.Generator(np.random.Philox(key=_FIELD))
    field = generator.standard_normal((3, 2 * made.height, 2 * made.width), dtype=np.float32)
    return field if made.layout == "NCHW" else np.ascontiguousarray(field.transpose(1, 2, 0))
