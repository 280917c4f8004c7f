"""Reads tables from files."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeVar

import polars as pl

from gpufeed._util.open_regular import open_regular
from gpufeed._util.urls import public_url, split_url
from gpufeed.errors import ManifestError
from gpufeed.source.locate import storage_of

__all__ = [
    "FAILURES",
    "TABLE_FILES",
    "count_rows",
    "first_line",
    "parquet_columns",
    "read_file",
    "read_parquet",
]

# A panic in polars is not a PolarsError and derives from BaseException.
FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError)
_KINDS = {
    ".csv": "CSV",
    ".tsv": "TSV",
    ".jsonl": "JSON Lines",
    ".ndjson": "JSON Lines",
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".feather": "Arrow IPC",
    ".arrow": "Arrow IPC",
    ".ipc": "Arrow IPC",
}
TABLE_FILES = tuple(_KINDS)
"""Endings of the files that are tables."""
_T = TypeVar("_T")


def read_file(file: Path | str, texts: Collection[str]) -> tuple[pl.DataFrame, bool]:
    """Read a table from a file, whose ending says of what kind it is.

    Args:
        file: a file or its URL; text is UTF-8, and CSV and TSV have a header.
        texts: columns of CSV and TSV to read as text; the dtypes of the others are inferred.

    Returns:
        The table, and whether it was read from CSV or TSV.

    Raises:
        ManifestError: the ending is none of `TABLE_FILES`, or the file is missing or damaged.
    """
    name = str(file) if isinstance(file, Path) else public_url(file)
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in _KINDS:
        raise ManifestError(
            f"{name} ends in {suffix!r}; a table must end in one of {', '.join(TABLE_FILES)}"
        )
    kind = _KINDS[suffix]

    def read(opened: BinaryIO) -> pl.DataFrame:
        if kind == "JSON Lines":
            return pl.read_ndjson(opened, infer_schema_length=None)
        if kind == "Arrow IPC":
            return pl.read_ipc(opened)
        return pl.read_csv(
            opened,
            separator="\t" if kind == "TSV" else ",",
            schema_overrides=dict.fromkeys(texts, pl.String),
            infer_schema_length=None,
        )

    if kind == "Parquet":
        return read_parquet(file), False
    return _read(file, kind, read), kind in ("CSV", "TSV")


def read_parquet(file: Path | str) -> pl.DataFrame:
    """Read a Parquet file or URL; raises ManifestError if it is missing or damaged."""
    return _read(file, "Parquet", lambda opened: pl.read_parquet(opened))


def parquet_columns(file: Path) -> list[str]:
    """Return the names of a Parquet file's columns, by its metadata; errors as `read_parquet`."""
    return _read(file, "Parquet", lambda opened: list(pl.read_parquet_schema(opened)))


def count_rows(file: Path) -> int:
    """Return the number of rows of a Parquet file, by its metadata; errors as `read_parquet`."""

    def count(_: BinaryIO) -> int:
        rows: int = pl.scan_parquet(file).select(pl.len()).collect().item()
        return rows

    return _read(file, "Parquet", count)


def _read(file: Path | str, kind: str, read: Callable[[BinaryIO], _T]) -> _T:
    """Return what `read` makes of an open file."""
    name = str(file) if isinstance(file, Path) else public_url(file)
    try:
        with _open(file) as opened:
            return read(opened)
    except OSError as error:
        raise ManifestError(f"cannot read {name}: {error.strerror or error}") from error
    except FAILURES as error:
        raise ManifestError(f"{name} is not a valid {kind} file: {first_line(error)}") from error


def _open(file: Path | str) -> BinaryIO:
    if isinstance(file, Path):
        return open_regular(file)
    folder, name = split_url(file)
    with storage_of(folder).open(name) as opened:
        # Whole, since what reads tables asks for many small parts.
        return io.BytesIO(opened.read())


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return next(iter(str(error).splitlines()), type(error).__name__)
