"""The columns `boxes`, those with a value for each box, and `points`: lists for each image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.rows import RowName, first_true
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.bounding_box import BOX_COLUMNS
from gpufeed.records.labels import check_unique, number_labels
from gpufeed.records.lists import flatten, ragged

__all__ = [
    "ANNOTATIONS",
    "BOXES",
    "BOX_LABELS",
    "BOX_POINTS",
    "POINTS",
    "BoxFormat",
    "check_annotations",
    "check_box_format",
    "read_boxes",
    "read_points",
]

BoxFormat = Literal["xyxy", "xywh"]

BOXES, BOX_LABELS, BOX_POINTS, POINTS = "boxes", "box_labels", "box_points", "points"
ANNOTATIONS = (BOXES, BOX_LABELS, BOX_POINTS, POINTS)
BOXES_TYPE = pl.List(pl.Array(pl.Float64, 4))
POINTS_TYPE = pl.List(pl.Array(pl.Float64, 3))

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


def check_box_format(value: Any) -> BoxFormat:
    """Return `value` if it is "xyxy" or "xywh".

    Raises:
        ConfigError: it is neither.
    """
    if value not in get_args(BoxFormat):
        raise ConfigError(f'box_format is {short(value)}; it must be "xyxy" or "xywh"')
    box_format: BoxFormat = value
    return box_format


def read_boxes(
    frame: pl.DataFrame,
    column: str | None,
    labels: str | None,
    box_format: BoxFormat,
    row_name: RowName,
    *,
    classes: Sequence[str] | None = None,
    points: str | None = None,
    others: Sequence[str] = (),
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return the frame with canonical boxes, and how many of them were clamped and dropped.

    Boxes that extend beyond their image are clamped to it. Boxes without area, before or after
    clamping, are dropped with all that belongs to them. Null means no boxes.

    Args:
        frame: has `width` and `height`.
        column: column of lists of four numbers, which becomes `boxes`; None for the boxes around
            their points.
        labels: column of lists of the boxes' labels, which becomes `box_labels`.
        box_format: "xyxy" for (x0, y0, x1, y1), "xywh" for (x, y, width, height).
        row_name: names a row.
        classes: names of the boxes' labels; None for those of the column.
        points: column of lists of each box's points, which becomes `box_points`.
        others: other columns of lists with a value for each box.

    Raises:
        ManifestError: a value is not a list of four finite numbers, a box ends before it starts, a
            column does not have one value for each box, a label is not in `classes`, or boxes
            differ in the number of their points.
        ConfigError: a name occurs twice in `classes`.
    """
    placed = None if points is None else _read_box_points(frame[points], row_name)
    if column is None and placed is not None:
        corners, offsets = placed[0][:, :, :2], placed[1]
        boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
        box_format = "xyxy"
    else:
        boxes, offsets = _numbers(frame[str(column)], (4,), row_name)
    rows = np.repeat(np.arange(frame.height), np.diff(offsets))
    if box_format == "xywh":
        boxes = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    reversed_ = (boxes[:, 2:] < boxes[:, :2]).any(axis=1)
    if reversed_.any():
        index = int(reversed_.argmax())
        raise ManifestError(
            f"{row_name(rows[index])}: {column} has a box from {boxes[index, :2].tolist()} to "
            f"{boxes[index, 2:].tolist()}, which ends before it starts; box_format is "
            f"{short(box_format)}"
        )
    limit = np.tile(frame.select("width", "height").to_numpy(), 2)[rows]
    if len(boxes) and boxes.max() <= 1 < limit.max() and (boxes % 1).any():
        raise ManifestError(
            f"{row_name(rows[0])}: {column or points} has the box {boxes[0].tolist()}, and no box "
            "reaches beyond the first pixel; boxes are in pixels: multiply shares by width and "
            "height"
        )
    clamped = np.clip(boxes, 0, limit)
    kept = np.asarray((clamped[:, 2:] > clamped[:, :2]).all(axis=1))
    repairs = {
        "boxes_clamped": int((clamped != boxes).any(axis=1)[kept].sum()),
        "boxes_dropped": int((~kept).sum()),
    }
    new = {BOXES: pl.Series(clamped)}
    if labels is not None:
        new[BOX_LABELS] = _read_labels(_of_boxes(frame[labels], offsets, row_name), classes)
    if placed is not None:
        _check_counts(placed[1], offsets, str(points), row_name)
        new[BOX_POINTS] = pl.Series(placed[0])
    for name in others:
        new[name] = _of_boxes(frame[name], offsets, row_name)
    before = np.concatenate([[0], np.cumsum(kept)])[offsets]
    given = {name for name in (column, labels, points) if name is not None}
    lists = [ragged(each.filter(pl.Series(kept)), before).alias(name) for name, each in new.items()]
    return frame.drop(given).with_columns(lists), repairs


def _check_counts(own: Int64, offsets: Int64, name: str, row_name: RowName) -> None:
    """Raise `ManifestError` if lists with the offsets `own` have not one value for each box."""
    counts, boxes = np.diff(own), np.diff(offsets)
    if (row := first_true(pl.Series(counts != boxes))) is not None:
        raise ManifestError(
            f"{row_name(row)}: {name} has {counts[row]} values for {boxes[row]} boxes"
        )


def _of_boxes(column: pl.Series, offsets: Int64, row_name: RowName) -> pl.Series:
    """Return the items of a column of lists, which must have one for each box."""
    if not isinstance(column.dtype, pl.List):
        raise ManifestError(f"column {column.name!r} must contain lists, not {column.dtype}")
    counts = column.list.len().fill_null(0).to_numpy().astype(np.int64)
    _check_counts(np.concatenate([[0], np.cumsum(counts)]), offsets, column.name, row_name)
    flat = column.filter(pl.Series(counts > 0)).explode()
    if flat.null_count():
        raise ManifestError(f"column {column.name!r} has a box without a value: there is a null")
    return flat


def _read_labels(flat: pl.Series, classes: Sequence[str] | None) -> pl.Series:
    """Return the labels of boxes: an Enum, or Int32 for unnamed integers."""
    if classes is None and isinstance(flat.dtype, pl.Enum):
        classes = flat.dtype.categories.to_list()
    if flat.dtype == pl.Null:
        flat = flat.cast(pl.Int32)
    is_text = flat.dtype in (pl.String, pl.Categorical, pl.Enum)
    if classes is not None and (is_text or flat.dtype.is_integer()):
        check_unique(classes)
        numbers = number_labels(flat, classes, f"column {flat.name!r}", "label")
        return pl.Series(classes, dtype=pl.String).gather(numbers).cast(pl.Enum(classes))
    if flat.dtype.is_integer():
        values = flat.cast(pl.Int32, strict=False)
        if values.null_count() or (values < 0).any():
            raise ManifestError(f"column {flat.name!r} has a label outside [0, 2**31 - 1]")
        return values
    if is_text:
        text = flat.cast(pl.String)
        return text.cast(pl.Enum(text.unique().sort()))
    raise ManifestError(
        f"column {flat.name!r} must contain lists of integers or text, not of {flat.dtype}"
    )


def read_points(frame: pl.DataFrame, column: str, row_name: RowName) -> pl.DataFrame:
    """Return the frame with canonical points: each x, y, visible; as many for each image.

    Args:
        frame: the table.
        column: column of lists of (x, y) or (x, y, visible), all of one length, which becomes
            `points`. As in COCO, a point is visible if `visible` is above 0.
        row_name: names a row.

    Raises:
        ManifestError: a point is not two or three finite numbers, or not as long as the others.
    """
    points, offsets = _points(frame[column], row_name)
    return frame.drop(column).with_columns(ragged(points, offsets).alias(POINTS))


def _points(column: pl.Series, row_name: RowName) -> tuple[Float64, Int64]:
    """Return the points in a column of lists, float64 (m, 3), and the lists' offsets."""
    points, offsets = _numbers(column, (2, 3), row_name)
    if points.shape[1] == 2:
        points = np.concatenate([points, np.ones((len(points), 1))], axis=1)
    points[:, 2] = points[:, 2] > 0
    return points, offsets


def _read_box_points(column: pl.Series, row_name: RowName) -> tuple[Float64, Int64]:
    """Return the k points of each of m boxes, float64 (m, k, 3), and the lists' offsets."""
    try:
        lists = column.cast(pl.List(pl.List(pl.List(pl.Float64))))
    except pl.exceptions.PolarsError:
        raise ManifestError(
            f"column {column.name!r} must contain a list of points for each box, as lists of 2 or "
            f"3 numbers, not {column.dtype}"
        ) from None
    counts = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(lists)), counts).tolist()
    flat = lists.filter(pl.Series(counts > 0)).explode()
    points, ends = _points(flat, lambda box: row_name(rows[box]))
    sizes = np.diff(ends)
    if (box := first_true(pl.Series((sizes != sizes[:1]) | (sizes == 0)))) is not None:
        raise ManifestError(
            f"{row_name(rows[box])}: {column.name} has a box with {sizes[box]} points; list the "
            "same number for each box, at least one, and missing ones with visible 0"
        )
    each = int(sizes[0]) if len(sizes) else 1
    return points.reshape(-1, each, 3), np.concatenate([[0], np.cumsum(counts)])


def _numbers(
    column: pl.Series, lengths: tuple[int, ...], row_name: RowName
) -> tuple[Float64, Int64]:
    """Return the rows of numbers in a column of lists, float64 (m, k), and the lists' offsets."""
    wanted = " or ".join(map(str, lengths))
    shape = f"column {column.name!r} must contain lists of {wanted} numbers each"
    dtype = column.dtype
    inner = dtype.inner if isinstance(dtype, pl.List | pl.Array) else None
    if isinstance(dtype, pl.Array):
        column = column.arr.to_list()
    if dtype not in (pl.Null, pl.List(pl.Null)) and not isinstance(inner, pl.List | pl.Array):
        item: Any = inner or dtype
        advice = ""
        if isinstance(item, pl.Struct) and item.fields:
            advice = f"; name one of its fields, as {f'{column.name}.{item.fields[0].name}'!r}"
        raise ManifestError(f"{shape}, not {dtype}{advice}")
    try:
        column = column.cast(pl.List(pl.List(pl.Float64)))
    except pl.exceptions.PolarsError:
        raise ManifestError(f"{shape}, not {dtype}") from None
    lists = column.list.len().fill_null(0)
    offsets = np.concatenate([[0], np.cumsum(lists.to_numpy().astype(np.int64))])
    rows = np.repeat(np.arange(len(column)), np.diff(offsets))
    items = column.filter(lists > 0).explode()
    size = items.list.len()
    if not len(size):
        return np.zeros((0, lengths[-1])), offsets
    if (index := first_true((size != size[0]) | ~size.is_in(lengths).fill_null(False))) is not None:
        raise ManifestError(
            f"{row_name(rows[index])}: {column.name} contains {items[index].to_list()}; {shape}"
        )
    numbers = items.explode().to_numpy().astype(np.float64).reshape(-1, size[0])
    invalid = ~np.isfinite(numbers).all(axis=1)
    if invalid.any():
        index = int(invalid.argmax())
        raise ManifestError(
            f"{row_name(rows[index])}: {column.name} contains {numbers[index].tolist()}; numbers "
            "must be finite"
        )
    return numbers, offsets


def check_annotations(
    frame: pl.DataFrame, row_name: RowName, points: pl.Series | None, box_columns: Sequence[str]
) -> None:
    """Check that boxes, what belongs to them, and points are canonical.

    Args:
        frame: some rows of a table.
        row_name: names a row.
        points: the points of the table's first row, of which all have the number; None if the
            table has none.
        box_columns: columns with a value for each box.

    Raises:
        ManifestError: they are not.
    """
    for name, dtype in ((BOXES, BOXES_TYPE), (POINTS, POINTS_TYPE)):
        if name not in frame.columns:
            continue
        if frame[name].dtype != dtype:
            raise ManifestError(
                f"column {name!r} must have dtype {dtype}, not {frame[name].dtype}; convert it "
                f"with read_table({name}={name!r}), or rename it if it is something else"
            )
        if (row := first_true(frame[name].is_null())) is not None:
            raise ManifestError(f"{row_name(row)}: {name} is null")
        values, offsets = flatten(frame[name])
        if not np.isfinite(values).all():
            raise ManifestError(f"column {name!r} contains a null or a number that is not finite")
        counts = np.diff(offsets)
        number = 0 if name == BOXES or points is None else points.list.len()[0]
        if name == POINTS and (row := first_true(pl.Series(counts != number))) is not None:
            raise ManifestError(
                f"{row_name(row)}: there are {counts[row]} points, but {number} in the first "
                "row; list the same number for each image, missing ones with visible 0"
            )
        if name == BOXES:
            rows = np.repeat(np.arange(frame.height), counts)
            limit = frame.select("width", "height").to_numpy()[rows]
            bad = (values[:, 2:] <= values[:, :2]) | (values[:, :2] < 0) | (values[:, 2:] > limit)
            if bad.any():
                index = int(bad.any(axis=1).argmax())
                raise ManifestError(
                    f"{row_name(rows[index])}: the box {values[index].tolist()} (x0 y0 x1 y1) is "
                    f"empty or not inside the image of {limit[index][0]}x{limit[index][1]} pixels"
                )
    if BOX_LABELS in frame.columns:
        _check_labels(frame, row_name)
    if BOX_POINTS in frame.columns:
        _check_box_points(frame, row_name)
    for name in box_columns:
        _check_box_column(frame, name, row_name)


def _check_box_column(frame: pl.DataFrame, name: str, row_name: RowName) -> None:
    dtype = frame.schema.get(name)
    if not isinstance(dtype, pl.List):
        found = f"the columns are {frame.columns}" if dtype is None else f"its dtype is {dtype}"
        raise ManifestError(f"box_columns has {short(name)}, which is no column of lists: {found}")
    if BOXES in frame.columns:
        counts = frame[BOXES].list.len()
    elif BOX_COLUMNS[0] in frame.columns:
        counts = pl.select(pl.repeat(1, frame.height, dtype=pl.UInt32)).to_series()
    else:
        raise ManifestError(f"box_columns has {short(name)}, but there are no boxes")
    if (row := first_true(frame[name].list.len().ne_missing(counts))) is not None:
        raise ManifestError(f"{row_name(row)}: {name} does not have one value for each box")


def _check_labels(frame: pl.DataFrame, row_name: RowName) -> None:
    dtype = frame[BOX_LABELS].dtype
    inner = dtype.inner if isinstance(dtype, pl.List) else None
    if BOXES not in frame.columns or not (inner == pl.Int32 or isinstance(inner, pl.Enum)):
        raise ManifestError(
            f"column {BOX_LABELS!r} needs a column {BOXES!r} and dtype List(Int32) or List(Enum), "
            f"not {dtype}; convert it with read_table(boxes=..., box_labels={BOX_LABELS!r}), or "
            "rename it if it is something else"
        )
    wrong = frame[BOX_LABELS].list.len().ne_missing(frame[BOXES].list.len())
    if (row := first_true(wrong)) is not None:
        raise ManifestError(f"{row_name(row)}: {BOX_LABELS} does not have one label for each box")
    values = frame[BOX_LABELS].filter(frame[BOXES].list.len() > 0).explode()
    if values.null_count() or (inner == pl.Int32 and (values < 0).any()):
        raise ManifestError(f"column {BOX_LABELS!r} contains a null or a negative number")


def _check_box_points(frame: pl.DataFrame, row_name: RowName) -> None:
    dtype = frame[BOX_POINTS].dtype
    inner = dtype.inner if isinstance(dtype, pl.List) else None
    shape = inner.shape if isinstance(inner, pl.Array) else ()
    if (
        BOXES not in frame.columns
        or len(shape) != 2
        or inner != pl.Array(pl.Float64, (shape[0], 3))
    ):
        raise ManifestError(
            f"column {BOX_POINTS!r} needs a column {BOXES!r} and dtype List(Array(Float64, (k, "
            f"3))), not {dtype}; convert it with read_table(box_points={BOX_POINTS!r}), or rename "
            "it if it is something else"
        )
    wrong = frame[BOX_POINTS].list.len().ne_missing(frame[BOXES].list.len())
    if (row := first_true(wrong)) is not None:
        raise ManifestError(f"{row_name(row)}: {BOX_POINTS} does not have points for each box")
    if not np.isfinite(flatten(frame[BOX_POINTS])[0]).all():
        raise ManifestError(f"column {BOX_POINTS!r} contains a null or a number that is not finite")
