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

    Null is a list of none.
    """
    counts = column.list.len().fill_null(0).to_numpy().astype(np.int64)
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
