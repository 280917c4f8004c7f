"""The rows of a manifest as they are after transforms: sizes, boxes and points."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed.errors import ManifestError
from gpufeed.records import Manifest
from gpufeed.records.annotations import BOX_LABELS, BOX_POINTS, BOXES, POINTS
from gpufeed.records.bounding_box import BOX_COLUMNS, corners
from gpufeed.records.lists import ragged
from gpufeed.transforms.frame import Frame
from gpufeed.transforms.objects import Objects

__all__ = ["SHA256", "check_columns", "moved_rows"]

Float64 = npt.NDArray[np.float64]

_ORIGINAL, SHA256 = "original", "sha256"
"""Columns of the path that an image had before, and of the digest of what was written."""


def check_columns(manifest: Manifest) -> None:
    """Check that no column is named as those of prepared images, unless these are such.

    Raises:
        ManifestError: one is.
    """
    taken = [name for name in (_ORIGINAL, SHA256) if name in manifest.frame.columns]
    if len(taken) == 1:
        raise ManifestError(
            f"the manifest has the column {taken[0]!r}, which prepare writes itself; rename it"
        )


def moved_rows(manifest: Manifest, frame: Frame) -> pl.DataFrame:
    """Return the columns of a manifest for the images on a frame's canvases, without `path`.

    `boxes` are exact, also where the manifest has one box for each image. The columns of the single
    box are the whole pixels that it touches, and are left out if an image has nothing left of it.
    Boxes that are cropped away are dropped, with what the columns of boxes have for them. Points
    that are cropped away are not visible.

    Args:
        manifest: the images before.
        frame: their last frame.
    """
    rows = manifest.frame
    rows = rows.drop("path") if _ORIGINAL in rows.columns else rows.rename({"path": _ORIGINAL})
    rows = rows.with_columns(
        pl.Series("height", frame.height, pl.Int32), pl.Series("width", frame.width, pl.Int32)
    )
    objects = Objects.of(manifest, np.arange(len(manifest)))
    if objects is not None:
        rows = _with_boxes(rows, manifest, frame, objects)
    single = corners(manifest.boxes())
    if single is not None:
        moved = frame.map_boxes(single)
        low, high = np.floor(moved[:, :2]), np.ceil(moved[:, 2:])
        if _has_area(moved).all():
            values = np.concatenate([low, high - low], axis=1).T
            pairs = zip(BOX_COLUMNS, values, strict=True)
            rows = rows.with_columns(pl.Series(name, each).cast(pl.Int32) for name, each in pairs)
        else:
            rows = rows.drop(BOX_COLUMNS)
    points = manifest.points()
    if points is not None:
        offsets = np.arange(len(points) + 1) * points.shape[1]
        moved = _moved_points(frame, points).reshape(-1, 3)
        rows = rows.with_columns(ragged(moved, offsets).alias(POINTS))
    return rows


def _with_boxes(
    rows: pl.DataFrame, manifest: Manifest, frame: Frame, objects: Objects
) -> pl.DataFrame:
    boxes, offsets = objects.followed(frame).boxes, objects.offsets
    kept = _has_area(boxes)
    after = np.concatenate([[0], np.cumsum(kept)])[offsets]
    columns = {BOXES: pl.Series(boxes[kept])}
    points = manifest.box_points()
    if points is not None:
        columns[BOX_POINTS] = pl.Series(_moved_points(frame.take(objects.rows), points)[kept])
    if not kept.all():
        for name in {*manifest.box_columns, BOX_LABELS}.intersection(rows.columns):
            items = rows[name].filter(rows[name].list.len() > 0).explode()
            columns[name] = items.filter(pl.Series(kept))
    return rows.with_columns(ragged(each, after).alias(name) for name, each in columns.items())


def _has_area(boxes: Float64) -> npt.NDArray[np.bool_]:
    return np.asarray((boxes[:, 2:] > boxes[:, :2]).all(axis=1))


def _moved_points(frame: Frame, points: Float64) -> Float64:
    """Return points (n, k, 3) of x, y and visible on the canvases of a frame of n images."""
    places = points[..., :2]
    visible = (points[..., 2] > 0) & frame.shows(places)
    return np.concatenate([frame.map_points(places), visible[..., None]], axis=-1)
