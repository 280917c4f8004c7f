"""How a wrong row is found and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

__all__ = ["Where", "at_line", "first_true"]

Where = Callable[[int], str]
"""Names a row, by its number from 0, in an error message."""


def at_line(file: Path) -> Where:
    """Row i of a file without a header is its line i + 1."""
    return lambda row: f"{file}, line {row + 1}"


def first_true(mask: pl.Series) -> int | None:
    """The number of the first row that is True; None where there is none. Null is not True."""
    found = mask.arg_true()
    return int(found[0]) if len(found) else None
