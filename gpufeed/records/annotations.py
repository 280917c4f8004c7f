"""The columns `boxes`, `box_labels` and `points`: lists of annotations for each image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.rows import RowName, first_true
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.labels import check_unique, number_labels

__all__ = [
    "BOXES",
    "BOX_LABELS",
    "POINTS",
    "BoxFormat",
    "check_annotations",
    "check_box_format",
    "flatten",
    "ragged",
    "read_boxes",
    "read_points",
]

BoxFormat = Literal["xyxy", "xywh"]

BOXES, BOX_LABELS, POINTS = "boxes", "box_labels", "points"
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


def flatten(column: pl.Series) -> tuple[npt.NDArray[Any], Int64]:
    """Return the concatenated items of a column of n lists, and their offsets, int64 (n + 1)."""
    counts = column.list.len().to_numpy().astype(np.int64)
    # explode() would turn an empty list into a null
    inner = column.filter(pl.Series(counts > 0)).explode()
    if isinstance(inner.dtype, pl.Enum):
        inner = inner.to_physical()
    return inner.to_numpy(), np.concatenate([[0], np.cumsum(counts)])


def ragged(values: npt.NDArray[Any] | pl.Series, offsets: Int64) -> pl.Series:
    """Return a column of lists: the inverse of `flatten`."""
    items = pl.Series(values)
    count = len(offsets) - 1
    rows = np.repeat(np.arange(count), np.diff(offsets))
    # One more row for each list, since group_by would omit empty lists.
    frame = pl.DataFrame(
        {
            "row": np.concatenate([rows, np.arange(count)]),
            "real": np.arange(len(rows) + count) < len(rows),
            "value": pl.concat([items, pl.Series([None] * count, dtype=items.dtype)]),
        }
    )
    lists = frame.group_by("row", maintain_order=True).agg(pl.col("value").filter(pl.col("real")))
    return lists.sort("row")["value"]


def read_boxes(
    frame: pl.DataFrame,
    column: str,
    labels: str | None,
    box_format: BoxFormat,
    row_name: RowName,
    *,
    classes: Sequence[str] | None = None,
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return the frame with canonical boxes, and how many of them were clamped and dropped.

    Boxes that extend beyond their image are clamped to it. Boxes without area, before or after
    clamping, are dropped with their labels. Null means no boxes.

    Args:
        frame: has `width` and `height`.
        column: column of lists of four numbers, which becomes `boxes`.
        labels: column of lists of the boxes' labels, which becomes `box_labels`.
        box_format: "xyxy" for (x0, y0, x1, y1), "xywh" for (x, y, width, height).
        row_name: names a row.
        classes: names of the boxes' labels; None for those of the column.

    Raises:
        ManifestError: a value is not a list of four finite numbers, a box ends before it starts,
            there is not one label for each box, or a label is not in `classes`.
        ConfigError: a name occurs twice in `classes`.
    """
    boxes, offsets = _numbers(frame[column], (4,), row_name)
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
    clamped = np.clip(boxes, 0, limit)
    kept = np.asarray((clamped[:, 2:] > clamped[:, :2]).all(axis=1))
    repairs = {
        "boxes_clamped": int((clamped != boxes).any(axis=1)[kept].sum()),
        "boxes_dropped": int((~kept).sum()),
    }
    before = np.concatenate([[0], np.cumsum(kept)])
    new = [ragged(clamped[kept], before[offsets]).alias(BOXES)]
    if labels is not None:
        new.append(_read_labels(frame[labels], offsets, kept, row_name, classes))
    return frame.drop(column, *([labels] if labels else [])).with_columns(new), repairs


def _read_labels(
    column: pl.Series,
    offsets: Int64,
    kept: npt.NDArray[np.bool_],
    row_name: RowName,
    classes: Sequence[str] | None,
) -> pl.Series:
    """Return the labels of the boxes that are kept: an Enum, or Int32 for unnamed integers."""
    if not isinstance(column.dtype, pl.List):
        raise ManifestError(f"column {column.name!r} must contain lists, not {column.dtype}")
    counts = column.list.len().fill_null(0).to_numpy()
    if (row := first_true(pl.Series(counts != np.diff(offsets)))) is not None:
        raise ManifestError(
            f"{row_name(row)}: {column.name} has {counts[row]} labels for "
            f"{np.diff(offsets)[row]} boxes"
        )
    flat = column.filter(pl.Series(counts > 0)).explode()
    if flat.null_count():
        raise ManifestError(f"column {column.name!r} contains a null label")
    if classes is None and isinstance(flat.dtype, pl.Enum):
        classes = flat.dtype.categories.to_list()
    if flat.dtype == pl.Null:
        flat = flat.cast(pl.Int32)
    is_text = flat.dtype in (pl.String, pl.Categorical, pl.Enum)
    if classes is not None and (is_text or flat.dtype.is_integer()):
        check_unique(classes)
        numbers = number_labels(flat, classes, f"column {column.name!r}", "label")
        values = pl.Series(classes, dtype=pl.String).gather(numbers).cast(pl.Enum(classes))
    elif flat.dtype.is_integer():
        values = flat.cast(pl.Int32, strict=False)
        if values.null_count() or (values < 0).any():
            raise ManifestError(f"column {column.name!r} has a label outside [0, 2**31 - 1]")
    elif is_text:
        text = flat.cast(pl.String)
        values = text.cast(pl.Enum(text.unique().sort()))
    else:
        raise ManifestError(
            f"column {column.name!r} must contain lists of integers or text, not of {flat.dtype}"
        )
    before = np.concatenate([[0], np.cumsum(kept)])
    return ragged(values.filter(pl.Series(kept)), before[offsets]).alias(BOX_LABELS)


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
    points, offsets = _numbers(frame[column], (2, 3), row_name)
    if points.shape[1] == 2:
        points = np.concatenate([points, np.ones((len(points), 1))], axis=1)
    points[:, 2] = points[:, 2] > 0
    return frame.drop(column).with_columns(ragged(points, offsets).alias(POINTS))


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
        raise ManifestError(f"{shape}, not {dtype}")
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


def check_annotations(frame: pl.DataFrame, row_name: RowName, points: pl.Series | None) -> None:
    """Check that `boxes`, `box_labels` and `points` are canonical.

    Args:
        frame: some rows of a table.
        row_name: names a row.
        points: the points of the table's first row, of which all have the number; None if the
            table has none.

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
