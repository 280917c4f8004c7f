"""Bounding boxes that must lie inside their images."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpufeed._util.rows import RowName, first_true
from gpufeed.errors import ManifestError

__all__ = ["BOX", "clamp_boxes"]

BOX = ("box_x", "box_y", "box_width", "box_height")


def clamp_boxes(frame: pl.DataFrame, where: RowName) -> tuple[pl.DataFrame, int]:
    """Cut the boxes down to their images.

    Args:
        frame: with `width`, `height` and the four columns of `BOX`, integers in pixels.
        where: names a row in an error message.

    Returns:
        The frame with the boxes inside (Int32), and how many of them overran.

    Raises:
        ManifestError: a box has no area, or lies wholly outside its image.
    """
    x, y, w, h, W, H = (
        frame[name].to_numpy().astype(np.int64) for name in (*BOX, "width", "height")
    )
    left, top = np.clip(x, 0, W), np.clip(y, 0, H)
    width, height = np.clip(x + w, 0, W) - left, np.clip(y + h, 0, H) - top
    for broken, problem in (
        ((w < 1) | (h < 1), "has no area"),
        ((width < 1) | (height < 1), "lies wholly outside the image"),
    ):
        if (row := first_true(pl.Series(broken))) is not None:
            raise ManifestError(
                f"{where(row)}: the box {x[row]} {y[row]} {w[row]} {h[row]} (x y width height) "
                f"{problem} of {W[row]}x{H[row]} pixels"
            )
    clamped = int(((left != x) | (top != y) | (width != w) | (height != h)).sum())
    columns = zip(BOX, (left, top, width, height), strict=True)
    return frame.with_columns(
        pl.Series(name, values.astype(np.int32)) for name, values in columns
    ), clamped
