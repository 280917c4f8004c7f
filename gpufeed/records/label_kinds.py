"""The kinds of labels: one class an image, several, a number, a vector of numbers, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.rows import RowName, first_true, gather, named_pieces, take_rows
from gpufeed._util.sanitize import short
from gpufeed.errors import ManifestError
from gpufeed.records.lists import flatten

__all__ = ["Labels", "check_labels", "describe_label"]

_MAX_SHOWN = 3

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Labels:
    """The labels of n records, which are looked up in their column.

    Attributes:
        column: the manifest's labels; None if there are none.
        num_classes: the number of classes.
        count: the number of records, n.
    """

    column: pl.Series | None
    num_classes: int
    count: int

    @property
    def has_classes(self) -> bool:
        """Whether each record has exactly one class."""
        return self.column is not None and self.column.dtype == pl.Int32

    @property
    def groups(self) -> Int32:
        """The class of each record, int32 (n,), or all 0 unless each has exactly one."""
        return self.groups_of(None)

    def groups_of(self, keys: Int64 | None) -> Int32:
        """Return `groups` of some records; None is all of them."""
        if self.column is None or not self.has_classes:
            return np.zeros(self.count if keys is None else len(keys), np.int32)
        return gather(self.column, keys)

    def take(self, keys: Int64) -> npt.NDArray[Any] | None:
        """Return the labels of some records, as `Loader` hands them out; None if there are none."""
        if self.column is None:
            return None
        if isinstance(self.column.dtype, pl.List):
            classes, offsets = flatten(take_rows(self.column, keys))
            found = np.zeros((len(keys), self.num_classes), np.float32)
            found[np.repeat(np.arange(len(keys)), np.diff(offsets)), classes] = 1.0
            return found
        values = gather(self.column, keys)
        return values if self.has_classes else values.astype(np.float32)


def check_labels(labels: pl.Series, num_classes: int, row_name: RowName) -> pl.Series:
    """Return the labels of a manifest, with classes as Int32.

    Raises:
        ManifestError: a label is missing, not one of the classes, not finite, or of another kind.
    """
    dtype = labels.dtype
    inner: Any = dtype.inner if isinstance(dtype, pl.List | pl.Array) else dtype
    many = isinstance(dtype, pl.List)
    if not (inner.is_integer() if many else inner.is_float() or dtype.is_integer()):
        raise ManifestError(
            f"column 'label' must have dtype Int32, List(Int32), Float64 or Array(Float64), not "
            f"{dtype}; read_table converts text and booleans"
        )
    width = dtype.size if isinstance(dtype, pl.Array) else 0
    if inner.is_float() and width != num_classes:
        raise ManifestError(
            f"column 'label' contains {f'vectors of {width} numbers' if width else 'numbers'}, but "
            f"there are {num_classes} classes; "
            + ("name each entry" if width else "numbers have none")
        )
    for piece, name_in_piece in named_pieces(labels, row_name):
        if (row := first_true(piece.is_null())) is not None:
            raise ManifestError(f"{name_in_piece(row)}: label is missing")
        if inner.is_integer():
            _check_classes(piece, num_classes, name_in_piece)
        else:
            _check_finite(piece, name_in_piece)
    if inner.is_float():
        return labels
    return labels.cast(pl.List(pl.Int32) if many else pl.Int32)


def _check_classes(labels: pl.Series, num_classes: int, row_name: RowName) -> None:
    items, rows = labels, np.arange(len(labels))
    if isinstance(labels.dtype, pl.List):
        rows = np.repeat(rows, labels.list.len().to_numpy())
        items = labels.filter(labels.list.len() > 0).explode()
    outside = ~items.is_between(0, num_classes - 1).fill_null(False)
    if (item := first_true(outside)) is not None:
        raise ManifestError(
            f"{row_name(int(rows[item]))}: label {items[item]} is not in [0, {num_classes}), the "
            "range of the classes"
        )


def _check_finite(labels: pl.Series, row_name: RowName) -> None:
    with np.errstate(over="ignore"):
        finite = np.isfinite(labels.to_numpy().astype(np.float32).reshape(len(labels), -1))
    if (row := first_true(pl.Series(~finite.all(axis=1)))) is not None:
        raise ManifestError(
            f"{row_name(row)}: label is {short(labels.to_list()[row])}; numbers must be finite as "
            "float32"
        )


def describe_label(label: Any, classes: Sequence[str]) -> str:
    """Return a label of a manifest's row as text for people: the names of its classes, or numbers.

    Of a vector, name the largest entries.
    """
    if isinstance(label, int):
        return classes[label]
    if isinstance(label, float):
        return f"{label:.4g}"
    if all(isinstance(each, int) for each in label):
        return ", ".join(classes[each] for each in label) or "none"
    largest = sorted(range(len(label)), key=lambda place: -abs(label[place]))[:_MAX_SHOWN]
    return ", ".join(f"{classes[place]}: {label[place]:.3g}" for place in sorted(largest))
