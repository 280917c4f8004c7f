"""The kinds of labels: one class an image, several, a number, a vector of numbers, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.rows import RowName, first_true
from gpufeed._util.sanitize import short
from gpufeed.errors import ManifestError
from gpufeed.records.lists import flatten

__all__ = ["Labels", "check_labels", "describe_label"]

_MAX_SHOWN = 3


@dataclass(frozen=True)
class Labels:
    """The labels of n records.

    Attributes:
        values: int32 (n,), a class for each record; float32 (n,) or (n, k), numbers or vectors;
            with `offsets`, int32 (m,), the classes of all records; None if there are no labels.
        offsets: int64 (n + 1,); record i has the classes `offsets[i]` to `offsets[i + 1]`,
            exclusive. None unless records have several classes.
        num_classes: the number of classes.
        count: the number of records, n.
    """

    values: npt.NDArray[Any] | None
    offsets: npt.NDArray[np.int64] | None = None
    num_classes: int = 0
    count: int = 0

    @staticmethod
    def of(frame: pl.DataFrame, num_classes: int) -> Labels:
        """Return the labels of a manifest's frame."""
        if "label" not in frame.columns:
            return Labels(None, count=frame.height)
        column = frame["label"]
        if isinstance(column.dtype, pl.List):
            values, offsets = flatten(column)
            return Labels(values.astype(np.int32), offsets, num_classes, frame.height)
        values = column.to_numpy()
        kept = values if column.dtype == pl.Int32 else values.astype(np.float32)
        return Labels(kept, None, num_classes, frame.height)

    @property
    def classes(self) -> npt.NDArray[np.int32] | None:
        """The class of each record, int32 (n,); None unless each has exactly one."""
        one = self.values is not None and self.values.dtype == np.int32 and self.offsets is None
        return self.values if one else None

    @property
    def groups(self) -> npt.NDArray[np.int32]:
        """The class of each record, int32 (n,), or all 0 unless each has exactly one."""
        return np.zeros(self.count, np.int32) if self.classes is None else self.classes

    def take(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[Any] | None:
        """Return the labels of some records, as `Loader` hands them out; None if there are none."""
        if self.values is None or self.offsets is None:
            return None if self.values is None else self.values[keys]
        found = np.zeros((len(keys), self.num_classes), np.float32)
        for row, key in enumerate(keys):
            found[row, self.values[self.offsets[key] : self.offsets[key + 1]]] = 1.0
        return found


def check_labels(labels: pl.Series, num_classes: int, row_name: RowName) -> pl.Series:
    """Return the labels of a manifest, with classes as Int32.

    Raises:
        ManifestError: a label is null, not one of the classes, not finite, or of another kind.
    """
    dtype = labels.dtype
    inner: Any = dtype.inner if isinstance(dtype, pl.List | pl.Array) else dtype
    many = isinstance(dtype, pl.List)
    if not (inner.is_integer() if many else inner.is_float() or dtype.is_integer()):
        raise ManifestError(
            f"column 'label' must have dtype Int32, List(Int32), Float64 or Array(Float64), not "
            f"{dtype}; read_table converts text and booleans"
        )
    if (row := first_true(labels.is_null())) is not None:
        raise ManifestError(f"{row_name(row)}: label is null")
    if inner.is_integer():
        items, rows = labels, list(range(len(labels)))
        if many:
            rows = np.repeat(rows, labels.list.len().to_numpy()).tolist()
            items = labels.filter(labels.list.len() > 0).explode()
        outside = ~items.is_between(0, num_classes - 1).fill_null(False)
        if (item := first_true(outside)) is not None:
            raise ManifestError(
                f"{row_name(rows[item])}: label {items[item]} is not in [0, {num_classes}), the "
                "range of the classes"
            )
        return labels.cast(pl.List(pl.Int32) if many else pl.Int32)
    width = dtype.size if isinstance(dtype, pl.Array) else 0
    if width != num_classes:
        raise ManifestError(
            f"column 'label' contains {f'vectors of {width} numbers' if width else 'numbers'}, but "
            f"there are {num_classes} classes; "
            + ("name each entry" if width else "numbers have none")
        )
    with np.errstate(over="ignore"):
        finite = np.isfinite(labels.to_numpy().astype(np.float32).reshape(len(labels), -1))
    if (row := first_true(pl.Series(~finite.all(axis=1)))) is not None:
        raise ManifestError(
            f"{row_name(row)}: label is {short(labels[row])}; numbers must be finite as float32"
        )
    return labels


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
