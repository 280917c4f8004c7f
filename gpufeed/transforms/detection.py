"""Geometry that detectors are trained with, with torchvision v2's names, defaults and rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import checks
from gpufeed.transforms.base import GeometricTransform, Params, Records
from gpufeed.transforms.frame import Frame, Interpolation

__all__ = ["RandomIoUCrop", "RandomShortestSize", "RandomZoomOut", "ScaleJitter"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_ROUNDS = 100
_MOST_TRIALS = 1000
_AT_ONCE = 5
"""The least windows that are tried together for a record."""
_TOGETHER = 1000
"""About how many are for all."""


def _scaled(side: Int64, factor: Float64) -> Int64:
    """Sides times a factor, rounded down, but at least a pixel, which torchvision's may lack."""
    return np.maximum((side * factor).astype(np.int64), 1)


class RandomShortestSize(GeometricTransform):
    """Resize, antialiased, the shorter side to a size drawn from a list.

    Args:
        min_size: pixels, one size or several, of which each is drawn equally often.
        max_size: the most pixels the longer side may have; None for no bound.
        interpolation: "bilinear" or "bicubic".
    """

    def __init__(
        self,
        min_size: int | Sequence[int],
        max_size: int | None = None,
        interpolation: Interpolation = "bilinear",
    ) -> None:
        several = isinstance(min_size, Sequence) and not isinstance(min_size, str)
        sizes = list(min_size) if isinstance(min_size, Sequence) and several else [min_size]
        if not sizes:
            raise ConfigError("min_size is empty; give at least one size, in pixels")
        self.min_size = tuple(checks.check_size("min_size", size) for size in sizes)
        self.max_size = None if max_size is None else checks.check_size("max_size", max_size)
        self.interpolation = checks.check_interpolation(interpolation)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw height, width: int64 (n,), pixels."""
        short = np.minimum(records.height, records.width)
        size = np.array(self.min_size)[rng.integers(0, np.full(len(records), len(self.min_size)))]
        factor = size / short
        if self.max_size is not None:
            factor = np.minimum(factor, self.max_size / np.maximum(records.height, records.width))
        return {
            "height": _scaled(records.height, factor),
            "width": _scaled(records.width, factor),
        }

    def place(self, frame: Frame, params: Params) -> Frame:
        """Resize."""
        return frame.resize(params["height"], params["width"], self.interpolation)


class ScaleJitter(GeometricTransform):
    """Resize, antialiased, by a random factor of what would make the image fit a target.

    Ghiasi et al., "Simple copy-paste is a strong data augmentation method for instance
    segmentation", CVPR 2021 (large scale jitter).

    Args:
        target_size: (width, height) in pixels, in which the image is fitted at a scale of 1.
        scale_range: bounds of the factor, uniform between them.
        interpolation: "bilinear" or "bicubic".
    """

    def __init__(
        self,
        target_size: Sequence[int],
        scale_range: Sequence[float] = (0.1, 2.0),
        interpolation: Interpolation = "bilinear",
    ) -> None:
        if not isinstance(target_size, list | tuple) or len(target_size) != 2:
            raise ConfigError(f"target_size is {target_size!r}; it must be (width, height)")
        width, height = (checks.check_size("target_size", side) for side in target_size)
        self.target_size = width, height
        self.scale_range = checks.check_range("scale_range", scale_range)
        self.interpolation = checks.check_interpolation(interpolation)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw height, width: int64 (n,), pixels."""
        width, height = self.target_size
        fitted = np.minimum(height / records.height, width / records.width)
        factor = fitted * rng.uniform(*self.scale_range)
        return {
            "height": _scaled(records.height, factor),
            "width": _scaled(records.width, factor),
        }

    def place(self, frame: Frame, params: Params) -> Frame:
        """Resize."""
        return frame.resize(params["height"], params["width"], self.interpolation)


class RandomZoomOut(GeometricTransform):
    """Put the image at a random place of a larger canvas of one colour.

    Liu et al., "SSD: single shot multibox detector", ECCV 2016.

    Args:
        fill: level of the canvas, 0 to 255, or one for each of red, green, blue.
        side_range: bounds, 1 or more, of the canvas's sides over the image's.
        p: how often it is done.
    """

    def __init__(
        self,
        fill: float | Sequence[float] = 0.0,
        side_range: Sequence[float] = (1.0, 4.0),
        p: float = 0.5,
    ) -> None:
        self.fill = checks.check_fill(fill)
        self.side_range = checks.check_range("side_range", side_range)
        if self.side_range[0] < 1:
            raise ConfigError(f"side_range is {side_range!r}; a canvas is no smaller: 1 or more")
        self.p = checks.check_probability("p", p)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw top, left, bottom, right: int64 (n,), pixels to add."""
        applied = rng.bernoulli(self.p)
        factor = rng.uniform(*self.side_range)
        share = rng.uniform(size=2)
        more_y = applied * ((records.height * factor).astype(np.int64) - records.height)
        more_x = applied * ((records.width * factor).astype(np.int64) - records.width)
        left = (more_x * share[:, 0]).astype(np.int64)
        top = (more_y * share[:, 1]).astype(np.int64)
        return {"top": top, "left": left, "bottom": more_y - top, "right": more_x - left}

    def place(self, frame: Frame, params: Params) -> Frame:
        """Pad."""
        return frame.pad(
            params["top"], params["left"], params["bottom"], params["right"], self.fill
        )


class RandomIoUCrop(GeometricTransform):
    """Cut out a window in which the centre of at least one box lies and that overlaps it enough.

    Liu et al., "SSD: single shot multibox detector", ECCV 2016. For each record one of
    `sampler_options` is drawn: 1 or more leaves the image as it is; of another, `trials` windows
    of random sides and place are tried until one holds a box's centre and has at least this IoU
    (intersection over union) with such a box. Where none does, an option is drawn again. Boxes
    whose centre is outside of the window are dropped. Images without boxes are left as they are,
    and so are those for which 100 options gave no window (fewer where there are over 100 trials).

    Args:
        min_scale: least width and height of a window, as a share of the image's.
        max_scale: largest.
        min_aspect_ratio: least width over height of a window.
        max_aspect_ratio: largest.
        sampler_options: IoUs, each drawn equally often; None for 0, 0.1, 0.3, 0.5, 0.7, 0.9 and 1.
        trials: windows tried for an option, 1 to 1,000.

    Raises:
        ConfigError: the manifest has no boxes.
    """

    uses_objects = True

    def __init__(
        self,
        min_scale: float = 0.3,
        max_scale: float = 1.0,
        min_aspect_ratio: float = 0.5,
        max_aspect_ratio: float = 2.0,
        sampler_options: Sequence[float] | None = None,
        trials: int = 40,
    ) -> None:
        scale = checks.check_range("(min_scale, max_scale)", (min_scale, max_scale))
        if scale[1] > 1:
            raise ConfigError(f"max_scale is {max_scale!r}; a window is no larger than 1")
        bounds = (min_aspect_ratio, max_aspect_ratio)
        ratio = checks.check_range("(min_aspect_ratio, max_aspect_ratio)", bounds)
        if sampler_options is None:
            sampler_options = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
        try:
            options = tuple(float(option) for option in sampler_options)
        except (TypeError, ValueError):
            options = ()
        if not options or any(not option >= 0 for option in options):
            raise ConfigError(
                f"sampler_options is {sampler_options!r}; it must be numbers of 0 or more"
            )
        if checks.check_size("trials", trials) > _MOST_TRIALS:
            raise ConfigError(f"trials is {trials}; {_MOST_TRIALS:,} are the most")
        self.min_scale, self.max_scale = scale
        self.min_aspect_ratio, self.max_aspect_ratio = ratio
        self.sampler_options = options
        self.trials = int(trials)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw top, left, height, width: int64 (n,), pixels."""
        if records.objects is None:
            raise ConfigError(
                "RandomIoUCrop needs boxes in the manifest: a column boxes, or box_x, box_y, "
                "box_width and box_height"
            )
        full = np.stack([records.height, records.width], axis=1)
        window = np.concatenate([np.zeros_like(full), full], axis=1)
        boxes, present = records.objects.padded()
        options = np.array(self.sampler_options)
        # Whoever is left draws in step with the others, and whoever has a window draws no more, so
        # that what a record draws is its own.
        left = np.flatnonzero(present.any(axis=1))
        rng = rng.rows(left)
        for _ in range(min(_ROUNDS, _ROUNDS * 100 // self.trials)):
            if not len(left):
                break
            least = options[rng.integers(0, np.full(len(left), len(options)))]
            going = np.asarray(least < 1)
            left, least, rng = left[going], least[going], rng.rows(going)
            tried = 0
            while tried < self.trials and len(left):
                # Each trial's numbers are its own, so that it does not matter how many are drawn
                # at once: few for many records, since most need no more.
                tries = min(self.trials - tried, max(_AT_ONCE, _TOGETHER // len(left)))
                unit = rng.uniform(size=4 * tries).reshape(len(left), tries, 4)
                places, good = self._windows(unit, full[left])
                good &= _overlap(places, boxes[left], present[left]) >= least[:, None]
                found: Bool = np.asarray(good.any(axis=1))
                window[left[found]] = places[found, good[found].argmax(axis=1)]
                left, least, rng = left[~found], least[~found], rng.rows(~found)
                tried += tries
        return dict(zip(("top", "left", "height", "width"), window.T, strict=True))

    def _windows(self, unit: Float64, full: Int64) -> tuple[Int64, Bool]:
        """Return windows (..., 4) of top, left, height, width, and whether they are allowed."""
        spread = self.max_scale - self.min_scale
        size = (full[:, None] * (self.min_scale + spread * unit[..., :2])).astype(np.int64)
        start = ((full[:, None] - size) * unit[..., 2:]).astype(np.int64)
        ratio = size[..., 1] / np.maximum(size[..., 0], 1)
        good = (size > 0).all(axis=-1)
        good &= (ratio >= self.min_aspect_ratio) & (ratio <= self.max_aspect_ratio)
        return np.concatenate([start, size], axis=-1), good

    def keep(self, boxes: Float64, drawn: Params) -> Bool:
        """Whether their centres are in their windows: bool (m,)."""
        start = np.stack([drawn["left"], drawn["top"]], axis=1)
        return _centred(boxes, start, start + np.stack([drawn["width"], drawn["height"]], axis=1))

    def place(self, frame: Frame, params: Params) -> Frame:
        """Crop."""
        return frame.crop(params["top"], params["left"], params["height"], params["width"])


def _centred(boxes: Float64, start: npt.NDArray[Any], end: npt.NDArray[Any]) -> Bool:
    """Whether boxes (..., 4) have their centres between the corners (..., 2) of windows."""
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2
    return np.asarray(((start < centre) & (centre < end)).all(axis=-1))


def _overlap(windows: Int64, boxes: Float64, present: Bool) -> Float64:
    """Return the largest IoU of windows with boxes that have their centre in them.

    Args:
        windows: (n, t, 4) of top, left, height, width.
        boxes: (n, k, 4) of (x0, y0, x1, y1).
        present: (n, k), which of the boxes there are.

    Returns:
        (n, t); -1 where there is no such box.
    """
    start = windows[:, :, None, 1::-1]
    end = start + windows[:, :, None, :1:-1]
    boxes = boxes[:, None]
    both = np.minimum(boxes[..., 2:], end) - np.maximum(boxes[..., :2], start)
    common = np.maximum(both, 0).prod(axis=-1)
    areas = (boxes[..., 2:] - boxes[..., :2]).prod(axis=-1) + (end - start).prod(axis=-1)
    share = common / np.maximum(areas - common, 1e-9)
    share[~(_centred(boxes, start, end) & present[:, None])] = -1.0
    return np.asarray(share.max(axis=-1))
