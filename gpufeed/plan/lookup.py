"""Look up the pixels of encoded images that a view shows: the way back through its frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gpufeed.transforms.frame import Frame, Sampling

__all__ = ["Lookup"]

Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Axis = Literal[0, 1]

_TIE = 1e-6
"""Pixels. A point this close to the border of two pixels counts to the later one."""


@dataclass(frozen=True)
class _Points:
    """Where the pixels of n images come from, on the encoded images.

    Along each axis, 0 for y and 1 for x, arrays are (n, height, width), with a side of 1 along the
    other axis if all rows, or all columns, are alike.

    Attributes:
        at: positions in pixels; pixel i covers [i, i + 1).
        shown: which of them are on the image; both must be.
        first: int64 (n, 2), first pixel that may be read.
        last: int64 (n, 2), last pixel that may be read.
    """

    at: tuple[Float64, Float64]
    shown: tuple[Bool, Bool]
    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]


class Lookup:
    """Looks up the pixels of one view of a batch on the encoded images, each pixel once.

    The whole geometry is one map, and nothing is rounded on the way.

    Args:
        frame: the view's last frame, all of one size.
    """

    def __init__(self, frame: Frame) -> None:
        self.size: tuple[int, int] = (int(frame.height[0]), int(frame.width[0]))
        self._frame = frame
        warps = any(each.warped is not None for each in frame.chain())
        # A warp's positions differ for each pixel, so threads compute them, image by image.
        self._points = None if warps else _trace(frame)

    def __call__(
        self, row: int, values: npt.NDArray[Any], out: npt.NDArray[Any], sampling: Sampling
    ) -> Bool:
        """Write one image of the view.

        Args:
            row: the record's row in the batch.
            values: (height, width), the encoded image's pixels.
            out: (height, width) of the view.
            sampling: "nearest", or "bilinear" for values that have a mean.

        Returns:
            bool (height, width), or with a side of 1: which pixels are on the image. What `out`
            has elsewhere is undefined.
        """
        points, at = self._points, row
        if points is None:
            points, at = _trace(self._frame.take(slice(row, row + 1))), 0
        shown = np.asarray(points.shown[0][at] & points.shown[1][at])
        first, last = points.first[at].tolist(), points.last[at].tolist()
        if sampling == "nearest":
            y, x = (
                np.clip(points.at[axis][at] + _TIE, first[axis], last[axis]).astype(np.intp)
                for axis in (0, 1)
            )
            if y.shape[1] == x.shape[0] == 1:  # rows, then columns: six times as fast
                out[...] = values[y[:, 0]][:, x[0]]
            else:
                out[...] = values[y, x]
            return shown
        lower, upper, share = [], [], []
        for axis in (0, 1):
            centre = np.clip(points.at[axis][at] - 0.5, first[axis], last[axis])
            low = centre.astype(np.intp)
            lower.append(low)
            upper.append(np.minimum(low + 1, last[axis]))
            share.append((centre - low).astype(np.float32))
        above = values[lower[0], lower[1]] * (1 - share[1]) + values[lower[0], upper[1]] * share[1]
        below = values[upper[0], lower[1]] * (1 - share[1]) + values[upper[0], upper[1]] * share[1]
        out[...] = above * (1 - share[0]) + below * share[0]
        return shown


def _trace(frame: Frame) -> _Points:
    """Follow the centres of all pixels back to the encoded images."""
    height, width = frame.size[0].tolist()
    at = [np.arange(height)[None, :, None] + 0.5, np.arange(width)[None, None] + 0.5]
    shown: list[Any] = [np.True_, np.True_]
    frames = [*frame.chain()]
    for each in reversed(frames):
        if each.warped is not None:
            # As single-precision numbers, which is what the image is warped by.
            matrix = each.warped.matrix.astype(np.float32)[:, :, :, None, None].astype(np.float64)
            x, y, depth = (
                matrix[:, i, 0] * at[1] + matrix[:, i, 2] + matrix[:, i, 1] * at[0]
                for i in range(3)
            )
            with np.errstate(divide="ignore", invalid="ignore"):
                at = [y / depth, x / depth]
        for axis, flipped in ((0, each.upturn), (1, each.mirror)):
            size, scaled = _wide(each.size, axis), _wide(each.scaled, axis)
            moved = at[axis]
            if flipped.any():
                moved = np.where(flipped[:, None, None], size - moved, moved)
            moved = moved + _wide(each.origin, axis)
            inside = (moved >= _wide(each.shown, axis)) & (moved < _wide(each.shown_end, axis))
            shown[axis] = shown[axis] & inside
            at[axis] = _wide(each.source, axis) + moved * _wide(each.extent, axis) / scaled
    at = [np.where(seen, where, 0.0) for seen, where in zip(shown, at, strict=True)]
    start = frames[0].source
    return _Points((at[0], at[1]), (shown[0], shown[1]), start, start + frames[0].extent - 1)


def _wide(values: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    """Return one column of (n, 2) values as (n, 1, 1)."""
    return values[:, axis, None, None]
