"""The columns of one bounding box per image."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.rows import RowName, first_true
from gpufeed.errors import ManifestError

__all__ = ["BOX_COLUMNS", "clamp_boxes", "corners"]

BOX_COLUMNS = ("box_x", "box_y", "box_width", "box_height")


def clamp_boxes(frame: pl.DataFrame, row_name: RowName) -> tuple[pl.DataFrame, int]:
    """Clamp the boxes to their images.

    Args:
        frame: has `width`, `height` and the four columns of `BOX_COLUMNS`, integers in pixels.
        row_name: names a row in an error message.

    Returns:
        The frame with the clamped boxes (Int32), and how many of them changed.

    Raises:
        ManifestError: a box has no area, or lies entirely outside its image.
    """
    x, y, w, h, W, H = (
        frame[name].to_numpy().astype(np.int64) for name in (*BOX_COLUMNS, "width", "height")
    )
    left, top = np.clip(x, 0, W), np.clip(y, 0, H)
    width, height = np.clip(x + w, 0, W) - left, np.clip(y + h, 0, H) - top
    for invalid, problem in (
        ((w < 1) | (h < 1), "has no area"),
        ((width < 1) | (height < 1), "lies entirely outside the image"),
    ):
        if (row := first_true(pl.Series(invalid))) is not None:
            raise ManifestError(
                f"{row_name(row)}: the box {x[row]} {y[row]} {w[row]} {h[row]} (x y width height) "
                f"{problem} of {W[row]}x{H[row]} pixels"
            )
    clamped = int(((left != x) | (top != y) | (width != w) | (height != h)).sum())
    columns = zip(BOX_COLUMNS, (left, top, width, height), strict=True)
    return frame.with_columns(
        pl.Series(name, values.astype(np.int32)) for name, values in columns
    ), clamped


def corners(boxes: npt.NDArray[np.int32] | None) -> npt.NDArray[np.float64] | None:
    """Return boxes (n, 4) of x, y, width, height as float64 (n, 4) of (x0, y0, x1, y1), or None."""
    if boxes is None:
        return None
    start, extent = boxes[:, :2].astype(np.float64), boxes[:, 2:]
    return np.concatenate([start, start + extent], axis=1)
