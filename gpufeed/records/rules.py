"""The rules that the rows and the images of a manifest are checked by."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.rows import RowName, first_true, gather, named_pieces
from gpufeed._util.sanitize import short
from gpufeed.decode.headers import max_file_bytes
from gpufeed.errors import ManifestError
from gpufeed.records.annotations import POINTS, check_annotations
from gpufeed.records.bounding_box import BOX_COLUMNS
from gpufeed.records.fingerprint import check_dtypes
from gpufeed.records.label_kinds import check_labels
from gpufeed.source.base import Source, check_source
from gpufeed.source.files import PathSource
from gpufeed.source.locate import Root, source_of
from gpufeed.source.remote.storage import RemoteStorage
from gpufeed.source.storage import LocalStorage
from gpufeed.source.stored import StoredSource

__all__ = ["FileLimits", "check_frame", "check_images", "limit_files", "num_pixels"]

_INT32_MAX = 2**31 - 1


def check_frame(
    frame: pl.DataFrame,
    classes: int,
    numbers: Sequence[int] | None = None,
    box_columns: Sequence[str] = (),
) -> pl.DataFrame:
    """Check all rules, and return the frame with its integers as Int32."""
    numbers = range(frame.height) if numbers is None else numbers
    for name in ("path", *(["label"] if classes else []), "width", "height"):
        if name not in frame.columns:
            raise ManifestError(f"there is no column {name!r}; the columns are {frame.columns}")
    boxes = [name for name in BOX_COLUMNS if name in frame.columns]
    if boxes and len(boxes) < len(BOX_COLUMNS):
        raise ManifestError(
            f"boxes need all of the columns {list(BOX_COLUMNS)}; there are only {boxes}"
        )
    if frame.is_empty():
        raise ManifestError("a manifest needs at least one image")
    if frame["path"].dtype != pl.String:
        raise ManifestError(f"column 'path' must have dtype String, not {frame['path'].dtype}")
    integers = ["width", "height", *boxes]
    for name in integers:
        if not frame[name].dtype.is_integer():
            raise ManifestError(f"column {name!r} must have dtype Int32, not {frame[name].dtype}")

    def row_name(row: int) -> str:
        return f"row {numbers[row]} ({frame['path'][row]})"

    for name in ["path", *integers]:
        if (row := first_true(frame[name].is_null())) is not None:
            raise ManifestError(f"{row_name(row)}: {name} is null")
    for name, low, high, problem in (
        ("width", 1, _INT32_MAX, "is not a valid size"),
        ("height", 1, _INT32_MAX, "is not a valid size"),
        *((name, 0, _INT32_MAX, "is out of range") for name in boxes),
    ):
        if (row := first_true(~frame[name].is_between(low, high))) is not None:
            raise ManifestError(f"{row_name(row)}: {name} {frame[name][row]} {problem}")
    check_dtypes(frame)
    frame = frame.with_columns(pl.col(integers).cast(pl.Int32))
    if "label" in frame.columns:
        frame = frame.with_columns(check_labels(frame["label"], classes, row_name))
    points = frame[POINTS][:1] if POINTS in frame.columns else None
    for piece, name_in_piece in named_pieces(frame, row_name):
        if boxes:
            _check_boxes(piece, name_in_piece)
        check_annotations(piece, name_in_piece, points, box_columns)
    return frame


def _check_boxes(frame: pl.DataFrame, row_name: RowName) -> None:
    """Raise `ManifestError` if the single box of an image is empty or not inside it."""
    x, y, w, h, W, H = (frame[name].cast(pl.Int64) for name in (*BOX_COLUMNS, "width", "height"))
    if (row := first_true((w < 1) | (h < 1) | (x + w > W) | (y + h > H))) is not None:
        raise ManifestError(
            f"{row_name(row)}: the box {x[row]} {y[row]} {w[row]} {h[row]} (x y width height) "
            f"is empty or not inside the image of {W[row]}x{H[row]} pixels"
        )


def check_images(
    source: Source | Root, frame: pl.DataFrame, numbers: Sequence[int] | None
) -> Source:
    """Check and return the source; files that are too long for their pixels are rejected."""
    if isinstance(source, str | os.PathLike | LocalStorage | RemoteStorage):
        numbers = range(frame.height) if numbers is None else numbers
        source = source_of(source, frame["path"], where=lambda row: f"row {numbers[row]}")
        return limit_files(source, frame)
    check_source(source, frame.height)
    if isinstance(source, PathSource):
        differ = frame["path"].ne_missing(source.paths)
        if (row := first_true(differ)) is not None:
            raise ManifestError(
                f"row {row}: path is {short(frame['path'][row])}, but the source has the file "
                f"{short(source.paths[row])}; use the paths of the source"
            )
    return limit_files(source, frame)


def limit_files(source: Source, frame: pl.DataFrame) -> Source:
    """Return a source that rejects files which are too long for their pixels."""
    if isinstance(source, StoredSource):
        return source.limited(FileLimits(frame))
    return source


class FileLimits:
    """The most bytes that the encoded image of each row may have."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._sizes = frame[["width", "height"]]

    def __getitem__(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return max_file_bytes(num_pixels(self._sizes, keys))


def num_pixels(
    sizes: pl.DataFrame, rows: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int64]:
    """Return the number of pixels of each image, int64, of all rows or of some."""
    width, height = (gather(column, rows).astype(np.int64) for column in sizes)
    return width * height
