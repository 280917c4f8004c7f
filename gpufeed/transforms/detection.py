"""Geometry for detection and segmentation, with torchvision v2's names, defaults and rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import arguments
from gpufeed.transforms.base import GeometricTransform, Params, Records
from gpufeed.transforms.frame import Frame, Interpolation

__all__ = ["RandomIoUCrop", "RandomResize", "RandomShortestSize", "RandomZoomOut", "ScaleJitter"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_MAX_ROUNDS = 100
_MAX_TRIALS = 1000
_MIN_TRIALS_AT_ONCE = 5
"""The fewest windows to try at once for a record."""
_WINDOWS_AT_ONCE = 1000
"""About how many windows to try at once for all records together."""


def _scaled(side: Int64, factor: Float64) -> Int64:
    """Return sides times a factor, rounded down but at least 1; torchvision's may be 0."""
    return np.maximum((side * factor).astype(np.int64), 1)


class RandomShortestSize(GeometricTransform):
    """Resize, antialiased, so that the shorter side has a size drawn from a list.

    Args:
        min_size: pixels, one size or several of equal probability.
        max_size: limit of the longer side, pixels; None for no limit.
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
        self.min_size = tuple(arguments.check_size("min_size", size) for size in sizes)
        self.max_size = None if max_size is None else arguments.check_size("max_size", max_size)
        self.interpolation = arguments.check_interpolation(interpolation)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw `height` and `width`, int64 (n,), pixels."""
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


class RandomResize(GeometricTransform):
    """Resize, antialiased, so that the shorter side has a size drawn from a range.

    Args:
        min_size: smallest size of the shorter side, pixels.
        max_size: one more than the largest, pixels.
        interpolation: "bilinear" or "bicubic".
    """

    def __init__(
        self, min_size: int, max_size: int, interpolation: Interpolation = "bilinear"
    ) -> None:
        self.min_size = arguments.check_size("min_size", min_size)
        self.max_size = arguments.check_integer("max_size", max_size, self.min_size + 1)
        self.interpolation = arguments.check_interpolation(interpolation)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw `height` and `width`, int64 (n,), pixels."""
        size = rng.integers(self.min_size, np.full(len(records), self.max_size))
        short = np.minimum(records.height, records.width)
        return {"height": size * records.height // short, "width": size * records.width // short}

    def place(self, frame: Frame, params: Params) -> Frame:
        """Resize."""
        return frame.resize(params["height"], params["width"], self.interpolation)


class ScaleJitter(GeometricTransform):
    """Resize, antialiased, to a random multiple of the size that fits a target.

    Ghiasi et al., "Simple copy-paste is a strong data augmentation method for instance
    segmentation", CVPR 2021 (large scale jitter).

    Args:
        target_size: (width, height) in pixels, which the image fits at a factor of 1.
        scale_range: bounds of the uniformly drawn factor.
        interpolation: "bilinear" or "bicubic".
    """

    def __init__(
        self,
        target_size: Sequence[int],
        scale_range: Sequence[float] = (0.1, 2.0),
        interpolation: Interpolation = "bilinear",
    ) -> None:
        if not isinstance(target_size, list | tuple) or len(target_size) != 2:
            raise ConfigError(f"target_size is {short(target_size)}; it must be (width, height)")
        width, height = (arguments.check_size("target_size", side) for side in target_size)
        self.target_size = width, height
        self.scale_range = arguments.check_range("scale_range", scale_range)
        self.interpolation = arguments.check_interpolation(interpolation)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw `height` and `width`, int64 (n,), pixels."""
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
    """Place the image at a random position on a larger canvas of one colour.

    Liu et al., "SSD: single shot multibox detector", ECCV 2016.

    Args:
        fill: value of the canvas, 0 to 255; one number or three (RGB).
        side_range: bounds of the factor, 1 or more, from the image's sides to the canvas's.
        p: probability.
    """

    def __init__(
        self,
        fill: float | Sequence[float] = 0.0,
        side_range: Sequence[float] = (1.0, 4.0),
        p: float = 0.5,
    ) -> None:
        self.fill = arguments.check_fill(fill)
        self.side_range = arguments.check_range("side_range", side_range)
        if self.side_range[0] < 1:
            raise ConfigError(
                f"side_range is {short(side_range)}; its numbers must be 1 or more, since the "
                "canvas holds the image"
            )
        self.p = arguments.check_probability("p", p)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw `top`, `left`, `bottom` and `right`, int64 (n,), pixels to add."""
        applied = rng.bernoulli(self.p)
        factor = rng.uniform(*self.side_range)
        unit = rng.uniform(size=2)
        more_y = applied * ((records.height * factor).astype(np.int64) - records.height)
        more_x = applied * ((records.width * factor).astype(np.int64) - records.width)
        left = (more_x * unit[:, 0]).astype(np.int64)
        top = (more_y * unit[:, 1]).astype(np.int64)
        return {"top": top, "left": left, "bottom": more_y - top, "right": more_x - left}

    def place(self, frame: Frame, params: Params) -> Frame:
        """Pad."""
        return frame.pad(
            params["top"], params["left"], params["bottom"], params["right"], self.fill
        )


class RandomIoUCrop(GeometricTransform):
    """Crop a random window that contains the centre of a box and overlaps it enough.

    Liu et al., "SSD: single shot multibox detector", ECCV 2016. For each record, one of
    `sampler_options` is drawn: the minimum IoU (intersection over union), or 1 or more to leave the
    image as it is. Then up to `trials` windows of random size and position are tried; the first
    that contains the centre of a box and has at least this IoU with such a box is taken. If none
    does, another option is drawn. Boxes with their centre outside the window are dropped. An image
    stays as it is if it has no boxes, or if 100 options gave no window (with more than 100 trials,
    fewer options).

    Args:
        min_scale: smallest width and height of a window, as a fraction of the image's.
        max_scale: largest width and height, likewise.
        min_aspect_ratio: smallest width of a window divided by its height.
        max_aspect_ratio: largest, likewise.
        sampler_options: IoUs of equal probability; None for 0, 0.1, 0.3, 0.5, 0.7, 0.9 and 1.
        trials: windows to try for an option, 1 to 1,000.

    Raises:
        ConfigError: from the loader, if the manifest has no boxes.
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
        scale = arguments.check_range("(min_scale, max_scale)", (min_scale, max_scale))
        if scale[1] > 1:
            raise ConfigError(
                f"max_scale is {short(max_scale)}; it must be at most 1, the whole image"
            )
        bounds = (min_aspect_ratio, max_aspect_ratio)
        ratio = arguments.check_range("(min_aspect_ratio, max_aspect_ratio)", bounds)
        if sampler_options is None:
            sampler_options = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
        try:
            options = tuple(float(option) for option in sampler_options)
        except (TypeError, ValueError):
            options = ()
        if not options or any(not option >= 0 for option in options):
            raise ConfigError(
                f"sampler_options is {short(sampler_options)}; it must be numbers of 0 or more"
            )
        self.min_scale, self.max_scale = scale
        self.min_aspect_ratio, self.max_aspect_ratio = ratio
        self.sampler_options = options
        self.trials = arguments.check_integer("trials", trials, 1, _MAX_TRIALS)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw `top`, `left`, `height` and `width`, int64 (n,), pixels."""
        if records.objects is None:
            raise ConfigError(
                "RandomIoUCrop needs boxes in the manifest: a column boxes, or box_x, box_y, "
                "box_width and box_height"
            )
        full = np.stack([records.height, records.width], axis=1)
        window = np.concatenate([np.zeros_like(full), full], axis=1)
        boxes, present = records.objects.padded()
        options = np.array(self.sampler_options)
        # Records without a window draw the same number of times; those with one stop drawing. So a
        # record's numbers do not depend on the others in its batch.
        pending = np.flatnonzero(present.any(axis=1))
        rng = rng.rows(pending)
        for _ in range(min(_MAX_ROUNDS, _MAX_ROUNDS * 100 // self.trials)):
            if not len(pending):
                break
            min_iou = options[rng.integers(0, np.full(len(pending), len(options)))]
            cropped = np.asarray(min_iou < 1)
            pending, min_iou, rng = pending[cropped], min_iou[cropped], rng.rows(cropped)
            tried = 0
            while tried < self.trials and len(pending):
                # Each trial draws its own four numbers, so the results do not depend on how many
                # trials are made at once. Most records need few.
                trials = min(
                    self.trials - tried,
                    max(_MIN_TRIALS_AT_ONCE, _WINDOWS_AT_ONCE // len(pending)),
                )
                unit = rng.uniform(size=4 * trials).reshape(len(pending), trials, 4)
                windows, valid = self._windows(unit, full[pending])
                valid &= _max_iou(windows, boxes[pending], present[pending]) >= min_iou[:, None]
                found: Bool = np.asarray(valid.any(axis=1))
                window[pending[found]] = windows[found, valid[found].argmax(axis=1)]
                pending, min_iou, rng = pending[~found], min_iou[~found], rng.rows(~found)
                tried += trials
        return dict(zip(("top", "left", "height", "width"), window.T, strict=True))

    def _windows(self, unit: Float64, full: Int64) -> tuple[Int64, Bool]:
        """Return windows (..., 4) of top, left, height, width, and whether they are valid."""
        spread = self.max_scale - self.min_scale
        size = (full[:, None] * (self.min_scale + spread * unit[..., :2])).astype(np.int64)
        start = ((full[:, None] - size) * unit[..., 2:]).astype(np.int64)
        ratio = size[..., 1] / np.maximum(size[..., 0], 1)
        valid = (size > 0).all(axis=-1)
        valid &= (ratio >= self.min_aspect_ratio) & (ratio <= self.max_aspect_ratio)
        return np.concatenate([start, size], axis=-1), valid

    def keep(self, boxes: Float64, drawn: Params) -> Bool:
        """Return whether boxes have their centre in their record's window: bool (m,)."""
        start = np.stack([drawn["left"], drawn["top"]], axis=1)
        size = np.stack([drawn["width"], drawn["height"]], axis=1)
        return _has_centre(boxes, start, start + size)

    def place(self, frame: Frame, params: Params) -> Frame:
        """Crop."""
        return frame.crop(params["top"], params["left"], params["height"], params["width"])


def _has_centre(boxes: Float64, start: npt.NDArray[Any], end: npt.NDArray[Any]) -> Bool:
    """Return whether the centres of boxes (..., 4) are between the corners (..., 2) of windows."""
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2
    return np.asarray(((start < centre) & (centre < end)).all(axis=-1))


def _max_iou(windows: Int64, boxes: Float64, present: Bool) -> Float64:
    """Return the largest IoU of each window with the boxes that have their centre in it.

    Args:
        windows: (n, t, 4) of top, left, height, width.
        boxes: (n, k, 4) of (x0, y0, x1, y1).
        present: (n, k), False for padding in `boxes`.

    Returns:
        (n, t); -1 for windows without such a box.
    """
    start = windows[:, :, None, 1::-1]
    end = start + windows[:, :, None, :1:-1]
    boxes = boxes[:, None]
    sides = np.minimum(boxes[..., 2:], end) - np.maximum(boxes[..., :2], start)
    intersection = np.maximum(sides, 0).prod(axis=-1)
    areas = (boxes[..., 2:] - boxes[..., :2]).prod(axis=-1) + (end - start).prod(axis=-1)
    iou = intersection / np.maximum(areas - intersection, 1e-9)
    iou[~(_has_centre(boxes, start, end) & present[:, None])] = -1.0
    return np.asarray(iou.max(axis=-1))
