"""Rows of tables: finds invalid ones, names them in error messages, and takes tables by parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = [
    "PIECE",
    "RowName",
    "first_true",
    "gather",
    "line_name",
    "named_pieces",
    "pieces",
    "take_rows",
]

RowName = Callable[[int], str]
"""Returns the name of a row, given its number from 0, for an error message: "a.csv, row 3"."""

PIECE = 1 << 18
"""Rows that are looked at together, so that what is made of them takes little memory."""
_T = TypeVar("_T", pl.DataFrame, pl.Series)


def line_name(file: Path) -> RowName:
    """Return a function that names the rows of a file without a header: row i is line i + 1."""
    return lambda row: f"{file}, line {row + 1}"


def first_true(mask: pl.Series) -> int | None:
    """Return the number of the first row that is true, or None; null counts as false."""
    rows = mask.arg_true()
    return int(rows[0]) if len(rows) else None


def pieces(table: _T) -> Iterator[_T]:
    """Yield a table or column as parts of `PIECE` rows, the last of which may be shorter.

    An empty one is a single part.
    """
    for start in range(0, max(len(table), 1), PIECE):
        yield table.slice(start, PIECE)


def named_pieces(table: _T, row_name: RowName) -> Iterator[tuple[_T, RowName]]:
    """Yield the parts of `pieces`, each with a function that names its rows."""
    for number, piece in enumerate(pieces(table)):
        yield piece, _shifted(row_name, number * PIECE)


def _shifted(row_name: RowName, first: int) -> RowName:
    return lambda row: row_name(first + int(row))


def gather(column: pl.Series, rows: npt.NDArray[np.int64] | None) -> npt.NDArray[Any]:
    """Return the values of some rows of a column without nulls; None returns those of all rows.

    A forked process may call it, unlike what polars does with several columns at once.
    """
    if rows is None:
        return column.to_numpy()
    # A column of one chunk is a view of its memory, which takes a microsecond. One of several, as
    # files have them, would be copied, and so would booleans, which are bits.
    if column.n_chunks() == 1 and column.dtype != pl.Boolean:
        return column.to_numpy()[rows]
    return take_rows(column, rows).to_numpy()


def take_rows(column: pl.Series, rows: npt.NDArray[np.int64]) -> pl.Series:
    """Return some rows of a column, as `gather` of polars does in twenty times as long."""
    return column[pl.Series(rows.astype(np.uint32))]
