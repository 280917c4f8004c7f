"""Turn a frame into the window that it reads and the stage that resamples it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.plan.stages import Canvas, Resample, Resize, Window
from gpufeed.transforms.frame import SUPPORT, Frame

__all__ = ["resample"]


def resample(frame: Frame, *, cut: bool) -> tuple[Window, Resample]:
    """Return the window that a frame reads, and the stage that resamples it, without its warp.

    Args:
        frame: a frame of a batch.
        cut: whether the stage crops its input to the window; if not, the input is the window.
    """
    shown, end = frame.shown, frame.shown_end
    blank = end <= shown
    if blank.any():
        # Nothing of the image is shown: keep one pixel, and place the canvas outside it.
        shown = np.clip(shown, 0, frame.scaled - 1)
        end = np.where(blank, shown + 1, end)

    resize, canvas = None, None
    if frame.interpolation is None:
        start, shape = frame.source + shown, end - shown
    elif not frame.trimmed:
        start, shape = frame.source, frame.extent
        resize = Resize(frame.interpolation, _float32(frame.scaled), None, None)
    else:
        # The smallest window that gives the same pixels: what is shown, and what the filter reads
        # around it, clipped to the extent, where the filter ends in any case.
        scale = frame.extent / frame.scaled
        radius = SUPPORT[frame.interpolation] * np.maximum(scale, 1.0) + 1.0
        roi_start, roi_end = shown * scale, end * scale
        first = np.maximum(np.floor(roi_start - radius).astype(np.int64), 0)
        last = np.minimum(np.ceil(roi_end + radius).astype(np.int64), frame.extent)
        start, shape = frame.source + first, last - first
        resize = Resize(
            frame.interpolation,
            _float32(end - shown),
            _float32(roi_start - first),
            _float32(roi_end - first),
        )
    if frame.fill is not None:
        origin = np.where(blank, 1, frame.origin - shown)
        canvas = Canvas(_int32(origin), _int32(frame.size), frame.fill)
    mirror = _int32(frame.mirror) if frame.mirrored else None
    upturn = _int32(frame.upturn) if frame.upturned else None
    window = Window(_int32(start), _int32(shape))
    return window, Resample(window if cut else None, resize, canvas, mirror, upturn)


def _int32(values: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    return np.ascontiguousarray(values, np.int32)


def _float32(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(values, np.float32)
