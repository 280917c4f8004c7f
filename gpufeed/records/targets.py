"""Columns that hold several boxes, or points, of each image."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.rows import RowName, first_true
from gpufeed.errors import ConfigError, ManifestError

__all__ = [
    "BOXES",
    "BOX_LABELS",
    "POINTS",
    "BoxFormat",
    "check_box_format",
    "check_targets",
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
    """Return "xyxy" or "xywh".

    Raises:
        ConfigError: it is neither.
    """
    if value not in get_args(BoxFormat):
        raise ConfigError(f'box_format is {value!r}; it must be "xyxy" or "xywh"')
    chosen: BoxFormat = value
    return chosen


def flatten(column: pl.Series) -> tuple[npt.NDArray[Any], Int64]:
    """Return what is in lists one after the other, and the offsets, int64 (n + 1), of each list."""
    counts = column.list.len().to_numpy().astype(np.int64)
    # explode() would turn an empty list into a null
    inner = column.filter(pl.Series(counts > 0)).explode()
    if isinstance(inner.dtype, pl.Enum):
        inner = inner.to_physical()
    return inner.to_numpy(), np.concatenate([[0], np.cumsum(counts)])


def ragged(values: npt.NDArray[Any] | pl.Series, offsets: Int64) -> pl.Series:
    """Return lists of what `flatten` took out of them."""
    given = pl.Series(values)
    count = len(offsets) - 1
    rows = np.repeat(np.arange(count), np.diff(offsets))
    # A row of its own for each list, since a group without rows would be none.
    frame = pl.DataFrame(
        {
            "row": np.concatenate([rows, np.arange(count)]),
            "real": np.arange(len(rows) + count) < len(rows),
            "value": pl.concat([given, pl.Series([None] * count, dtype=given.dtype)]),
        }
    )
    lists = frame.group_by("row", maintain_order=True).agg(pl.col("value").filter(pl.col("real")))
    return lists.sort("row")["value"]


def read_boxes(
    frame: pl.DataFrame, column: str, labels: str | None, box_format: BoxFormat, at: RowName
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return the frame with canonical boxes, and how many of them were clamped and dropped.

    Boxes that overrun their image are cut to it, and those without area, before or after, are
    dropped with their labels. Null stands for an image without boxes.

    Args:
        frame: with `width` and `height`.
        column: lists of four numbers; it becomes `boxes`.
        labels: the column of the boxes' labels, likewise lists; it becomes `box_labels`.
        box_format: "xyxy" for (x0, y0, x1, y1), "xywh" for (x, y, width, height).
        at: names a row.

    Raises:
        ManifestError: something is no list of four finite numbers, a box ends before it begins, or
            there is not a label for each box.
    """
    boxes, offsets = _numbers(frame[column], (4,), at)
    rows = np.repeat(np.arange(frame.height), np.diff(offsets))
    if box_format == "xywh":
        boxes = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    turned = (boxes[:, 2:] < boxes[:, :2]).any(axis=1)
    if turned.any():
        one = int(turned.argmax())
        raise ManifestError(
            f"{at(rows[one])}: {column} holds a box from {boxes[one, :2].tolist()} to "
            f"{boxes[one, 2:].tolist()}, which ends before it begins; box_format is {box_format!r}"
        )
    limit = np.tile(frame.select("width", "height").to_numpy(), 2)[rows]
    cut = np.clip(boxes, 0, limit)
    kept = np.asarray((cut[:, 2:] > cut[:, :2]).all(axis=1))
    repairs = {
        "boxes_clamped": int((cut != boxes).any(axis=1)[kept].sum()),
        "boxes_dropped": int((~kept).sum()),
    }
    before = np.concatenate([[0], np.cumsum(kept)])
    new = [ragged(cut[kept], before[offsets]).alias(BOXES)]
    if labels is not None:
        new.append(_read_labels(frame[labels], offsets, kept, at))
    return frame.drop(column, *([labels] if labels else [])).with_columns(new), repairs


def _read_labels(
    column: pl.Series, offsets: Int64, kept: npt.NDArray[np.bool_], at: RowName
) -> pl.Series:
    """Return the labels of the boxes that are kept: Int32 as they are, or an Enum of their text."""
    if not isinstance(column.dtype, pl.List):
        raise ManifestError(f"column {column.name!r} must hold lists, not {column.dtype}")
    counts = column.list.len().fill_null(0).to_numpy()
    if (row := first_true(pl.Series(counts != np.diff(offsets)))) is not None:
        raise ManifestError(
            f"{at(row)}: {column.name} has {counts[row]} labels for {np.diff(offsets)[row]} boxes"
        )
    flat = column.filter(pl.Series(counts > 0)).explode()
    if flat.null_count():
        raise ManifestError(f"column {column.name!r} holds a label that is null")
    if flat.dtype.is_integer() or flat.dtype == pl.Null:
        values = flat.cast(pl.Int32, strict=False)
        if values.null_count() or (values < 0).any():
            raise ManifestError(f"column {column.name!r} holds a label outside of 0 to 2**31 - 1")
    elif flat.dtype == pl.String or isinstance(flat.dtype, pl.Categorical | pl.Enum):
        text = flat.cast(pl.String)
        values = text.cast(pl.Enum(text.unique().sort()))
    else:
        raise ManifestError(
            f"column {column.name!r} must hold lists of integers or text, not of {flat.dtype}"
        )
    before = np.concatenate([[0], np.cumsum(kept)])
    return ragged(values.filter(pl.Series(kept)), before[offsets]).alias(BOX_LABELS)


def read_points(frame: pl.DataFrame, column: str, at: RowName) -> pl.DataFrame:
    """Return the frame with canonical points: as many for each image, each x, y, visible.

    Args:
        frame: the table.
        column: lists of (x, y) or (x, y, visible), equally long; `visible` is above 0 where a point
            can be seen, as in COCO. It becomes `points`.
        at: names a row.

    Raises:
        ManifestError: something is no list of two or three finite numbers, or not as long as the
            others.
    """
    points, offsets = _numbers(frame[column], (2, 3), at)
    if points.shape[1] == 2:
        points = np.concatenate([points, np.ones((len(points), 1))], axis=1)
    points[:, 2] = points[:, 2] > 0
    return frame.drop(column).with_columns(ragged(points, offsets).alias(POINTS))


def _numbers(column: pl.Series, lengths: tuple[int, ...], at: RowName) -> tuple[Float64, Int64]:
    """Return the rows of numbers in a column of lists, float64 (m, k), and the lists' offsets."""
    wanted = " or ".join(map(str, lengths))
    shape = f"column {column.name!r} must hold lists of {wanted} numbers each"
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
    each = column.filter(lists > 0).explode()
    size = each.list.len()
    if not len(size):
        return np.zeros((0, lengths[-1])), offsets
    if (one := first_true((size != size[0]) | ~size.is_in(lengths).fill_null(False))) is not None:
        raise ManifestError(f"{at(rows[one])}: {column.name} holds {each[one].to_list()}; {shape}")
    numbers = each.explode().to_numpy().astype(np.float64).reshape(-1, size[0])
    broken = ~np.isfinite(numbers).all(axis=1)
    if broken.any():
        one = int(broken.argmax())
        raise ManifestError(f"{at(rows[one])}: {column.name} holds {numbers[one].tolist()}")
    return numbers, offsets


def check_targets(frame: pl.DataFrame, at: RowName) -> None:
    """Raise `ManifestError` where `boxes`, `box_labels` or `points` are not canonical."""
    for name, dtype in ((BOXES, BOXES_TYPE), (POINTS, POINTS_TYPE)):
        if name not in frame.columns:
            continue
        if frame[name].dtype != dtype:
            raise ManifestError(
                f"column {name!r} must be of dtype {dtype}, not {frame[name].dtype}; read_table"
                f"({name}={name!r}) makes it that, or rename a column that is something else"
            )
        if (row := first_true(frame[name].is_null())) is not None:
            raise ManifestError(f"{at(row)}: {name} is null")
        values, offsets = flatten(frame[name])
        if not np.isfinite(values).all():
            raise ManifestError(f"column {name!r} holds a number that is not finite, or a null")
        counts = np.diff(offsets)
        if name == POINTS and (row := first_true(pl.Series(counts != counts[0]))) is not None:
            raise ManifestError(
                f"{at(row)}: there are {counts[row]} points, and {counts[0]} in the first row; "
                "list as many for each image, those that are not there with visible 0"
            )
        if name == BOXES:
            rows = np.repeat(np.arange(frame.height), counts)
            limit = frame.select("width", "height").to_numpy()[rows]
            bad = (values[:, 2:] <= values[:, :2]) | (values[:, :2] < 0) | (values[:, 2:] > limit)
            if bad.any():
                one = int(bad.any(axis=1).argmax())
                raise ManifestError(
                    f"{at(rows[one])}: the box {values[one].tolist()} (x0 y0 x1 y1) is empty or "
                    f"not inside the image of {limit[one][0]}x{limit[one][1]} pixels"
                )
    if BOX_LABELS in frame.columns:
        _check_labels(frame, at)


def _check_labels(frame: pl.DataFrame, at: RowName) -> None:
    dtype = frame[BOX_LABELS].dtype
    inner = dtype.inner if isinstance(dtype, pl.List) else None
    if BOXES not in frame.columns or not (inner == pl.Int32 or isinstance(inner, pl.Enum)):
        raise ManifestError(
            f"column {BOX_LABELS!r} must go with boxes, and be of dtype List(Int32) or List(Enum), "
            f"not {dtype}; read_table(boxes=..., box_labels={BOX_LABELS!r}) makes it that, or "
            "rename a column that is something else"
        )
    wrong = frame[BOX_LABELS].list.len().ne_missing(frame[BOXES].list.len())
    if (row := first_true(wrong)) is not None:
        raise ManifestError(f"{at(row)}: {BOX_LABELS} does not have a label for each box")
    values = frame[BOX_LABELS].filter(frame[BOXES].list.len() > 0).explode()
    if values.null_count() or (inner == pl.Int32 and (values < 0).any()):
        raise ManifestError(f"column {BOX_LABELS!r} holds a null or a negative number")
