"""Tables read from files that may be damaged."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from gpufeed.errors import ManifestError

__all__ = ["read_csv", "read_parquet"]

# A panic of polars' is no PolarsError, and derives from BaseException.
_FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OSError)


def read_parquet(file: Path) -> pl.DataFrame:
    """Read a Parquet file; raises ManifestError where it is missing or damaged."""
    data = _bytes(file)
    try:
        return pl.read_parquet(io.BytesIO(data))
    except _FAILURES as error:
        raise ManifestError(f"{file} is no valid Parquet file: {_first_line(error)}") from error


def read_csv(file: Path, dtypes: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """Read a CSV file with a header; raises ManifestError where it is missing or damaged.

    Args:
        file: UTF-8 text.
        dtypes: of the columns whose dtype is not to be guessed.
    """
    data = _bytes(file)
    try:
        data.decode()
        return pl.read_csv(io.BytesIO(data), schema_overrides=dtypes, infer_schema_length=None)
    except _FAILURES as error:
        raise ManifestError(f"{file} is no valid CSV file: {_first_line(error)}") from error


def _bytes(file: Path) -> bytes:
    # Bytes and not the path: polars takes `*` and `[` in a path for a pattern.
    try:
        return file.read_bytes()
    except OSError as error:
        raise ManifestError(f"can not read {file}: {error.strerror}") from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
