"""Tables read from files that may be damaged."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from gpufeed._util.open_regular import open_regular
from gpufeed.errors import ManifestError
from gpufeed.records.parquet import MOST_COLUMNS, read_apart

__all__ = ["read_csv", "read_parquet", "read_text"]

# A panic of polars' is no PolarsError, and derives from BaseException.
_FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OSError)

_PIECE = 1 << 20
"""Bytes of a text that are looked at before more of it is read."""


def read_parquet(file: Path) -> pl.DataFrame:
    """Read a Parquet file; raises ManifestError where it is missing or damaged."""
    try:
        with open_regular(file) as opened:
            frame = read_apart(opened)
    except OSError as error:
        raise _unreadable(file, error) from error
    except (ValueError, pl.exceptions.PolarsError) as error:
        raise ManifestError(f"{file} is no valid Parquet file: {_first_line(error)}") from error
    return frame


def read_csv(file: Path, dtypes: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """Read a CSV file with a header; raises ManifestError where it is missing or damaged.

    Args:
        file: UTF-8 text.
        dtypes: of the columns whose dtype is not to be guessed.
    """
    try:
        data = read_text(file)
    except OSError as error:
        raise _unreadable(file, error) from error
    # Before polars sees them, which takes half a minute over a million. It passes empty lines over.
    _check_columns(file, data.lstrip(b"\r\n").partition(b"\n")[0].count(b",") + 1)
    try:
        data.decode()
        source = io.BytesIO(data)
        frame = pl.read_csv(source, schema_overrides=dtypes, infer_schema_length=None)
    except _FAILURES as error:
        raise ManifestError(f"{file} is no valid CSV file: {_first_line(error)}") from error
    _check_columns(file, frame.width)
    return frame


def read_text(file: Path) -> bytes:
    """Return the content of a text file.

    Raises:
        ManifestError: it is no text, since a line holds a NUL.
        OSError: it can not be read, or is no regular file.
    """
    pieces: list[bytes] = []
    with open_regular(file) as opened:
        while piece := opened.read(_PIECE):
            pieces.append(piece)
            if (at := piece.find(b"\0")) >= 0:
                before = sum(each.count(b"\n") for each in pieces[:-1])
                line = before + piece.count(b"\n", 0, at) + 1
                raise ManifestError(f"{file}, line {line}: holds a NUL character, so it is no text")
    return b"".join(pieces)


def _check_columns(file: Path, count: int) -> None:
    if count > MOST_COLUMNS:
        raise ManifestError(f"{file} has {count:,} columns, of which {MOST_COLUMNS:,} may be")


def _unreadable(file: Path, error: OSError) -> ManifestError:
    return ManifestError(f"can not read {file}: {error.strerror or error}")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
