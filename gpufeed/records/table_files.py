"""Reads tables from Parquet and CSV files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from gpufeed._util.open_regular import open_regular
from gpufeed.errors import ManifestError

__all__ = ["count_rows", "read_csv", "read_parquet"]

# A panic in polars is not a PolarsError and derives from BaseException.
_FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError)


def read_parquet(file: Path) -> pl.DataFrame:
    """Read a Parquet file; raises ManifestError if it is missing or damaged."""
    try:
        with open_regular(file) as opened:
            return pl.read_parquet(opened)
    except OSError as error:
        raise _unreadable(file, error) from error
    except _FAILURES as error:
        raise ManifestError(f"{file} is not a valid Parquet file: {_first_line(error)}") from error


def count_rows(file: Path) -> int:
    """Return the number of rows of a Parquet file, by its metadata; errors as `read_parquet`."""
    try:
        open_regular(file).close()  # no pipe
        rows: int = pl.scan_parquet(file).select(pl.len()).collect().item()
    except OSError as error:
        raise _unreadable(file, error) from error
    except _FAILURES as error:
        raise ManifestError(f"{file} is not a valid Parquet file: {_first_line(error)}") from error
    return rows


def read_csv(file: Path, dtypes: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """Read a CSV file with a header; raises ManifestError if it is missing or damaged.

    Args:
        file: UTF-8 text.
        dtypes: dtypes of some columns; those of the others are inferred.
    """
    try:
        with open_regular(file) as opened:
            return pl.read_csv(opened, schema_overrides=dtypes, infer_schema_length=None)
    except OSError as error:
        raise _unreadable(file, error) from error
    except _FAILURES as error:
        raise ManifestError(f"{file} is not a valid CSV file: {_first_line(error)}") from error


def _unreadable(file: Path, error: OSError) -> ManifestError:
    return ManifestError(f"cannot read {file}: {error.strerror or error}")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
