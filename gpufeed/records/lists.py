"""Columns of lists as flat arrays with offsets, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["flatten", "ragged"]

Int64 = npt.NDArray[np.int64]


def flatten(column: pl.Series) -> tuple[npt.NDArray[Any], Int64]:
    """Return the concatenated items of a column of n lists, and their offsets, int64 (n + 1).

    Null is a list of none. Items of an Enum are numbers, and null numbers are NaN. A forked process
    may call it, unlike some of polars' expressions, whose threads do not survive a fork.
    """
    try:
        import pyarrow
    except ModuleNotFoundError:
        return _flatten_each(column)
    lists = column.to_arrow()
    offsets = lists.offsets.to_numpy()
    items = lists.values[offsets[0] : offsets[-1]]
    if isinstance(items, pyarrow.DictionaryArray):
        items = items.indices
    return pl.Series(items).to_numpy(), offsets - offsets[0]


def _flatten_each(column: pl.Series) -> tuple[npt.NDArray[Any], Int64]:
    dtype: Any = column.dtype
    empty = pl.Series([], dtype=dtype.inner).to_numpy()
    lists = [empty if each is None else each for each in column.to_numpy()]
    items = np.concatenate([empty, *lists])
    if isinstance(dtype.inner, pl.Enum):
        numbers = {name: number for number, name in enumerate(dtype.inner.categories)}
        items = np.array([numbers.get(name, np.nan) for name in items])
    return items, np.cumsum([0, *map(len, lists)])


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
