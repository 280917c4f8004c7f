"""Finds invalid rows of a table and names them in error messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

__all__ = ["RowName", "first_true", "line_name"]

RowName = Callable[[int], str]
"""Returns the name of a row, given its number from 0, for an error message: "a.csv, row 3"."""


def line_name(file: Path) -> RowName:
    """Return a function that names the rows of a file without a header: row i is line i + 1."""
    return lambda row: f"{file}, line {row + 1}"


def first_true(mask: pl.Series) -> int | None:
    """Return the number of the first row that is true, or None; null counts as false."""
    rows = mask.arg_true()
    return int(rows[0]) if len(rows) else None
