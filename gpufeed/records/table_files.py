"""Reads tables from files."""

from __future__ import annotations

import contextlib
import glob
import io
from collections.abc import Callable, Collection
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeVar

import polars as pl

from gpufeed._util.open_regular import open_regular
from gpufeed._util.urls import is_url, is_web, location, public_url, split_url
from gpufeed.errors import ManifestError, MissingExtraError
from gpufeed.records.arrow_file import map_arrow
from gpufeed.source.locate import storage_of
from gpufeed.source.patterns import expand_braces, locate
from gpufeed.source.storage import LocalStorage

__all__ = [
    "ARROW_FILES",
    "FAILURES",
    "PARQUET_FILES",
    "TABLE_FILES",
    "ending",
    "file_name",
    "find_files",
    "first_line",
    "is_pattern",
    "parquet_columns",
    "read_arrow",
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
PARQUET_FILES = tuple(ending for ending, kind in _KINDS.items() if kind == "Parquet")
ARROW_FILES = tuple(ending for ending, kind in _KINDS.items() if kind == "Arrow IPC")
_T = TypeVar("_T")


def find_files(table: object) -> list[Path | str] | None:
    """Return the files of a path, of a pattern such as `part-*.parquet`, or of a list of such.

    Returns:
        The files, those of a pattern in the order of their names, each a path or as text a URL;
        None if a table is not one of files.

    Raises:
        ManifestError: no file matches a pattern.
    """
    if isinstance(table, list | tuple) and table and isinstance(table[0], str | Path):
        return [file for each in table for file in find_files(each) or []]
    if not isinstance(table, str | Path):
        return None
    if not is_pattern(table):
        return [location(table)]
    storage, files = locate(table)
    names = [storage.name(file) for file in files]
    return [Path(name) if isinstance(storage, LocalStorage) else name for name in names]


def is_pattern(file: str | Path) -> bool:
    """Return whether this is a pattern, and not the name of a file."""
    text = str(file)
    if not glob.has_magic(text) and expand_braces(text) == [text]:
        return False
    # A web server has no listing, and a query string begins with a question mark.
    return not is_web(text) if is_url(file) else not Path(file).exists()


def file_name(file: Path | str) -> str:
    """Return the name of a file in errors: its path, or its URL without credentials."""
    return str(file) if isinstance(file, Path) else public_url(file)


def ending(file: Path | str) -> str:
    """Return the ending of a file's name, such as ".csv", in lower case."""
    return PurePosixPath(file_name(file)).suffix.lower()


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
    suffix = ending(file)
    if suffix not in _KINDS:
        raise ManifestError(
            f"{file_name(file)} ends in {suffix!r}; a table must end in one of "
            f"{', '.join(TABLE_FILES)}; read_folder reads class folders, and "
            'read_table({"path": paths}) a list of images'
        )
    kind = _KINDS[suffix]

    def read(opened: BinaryIO) -> pl.DataFrame:
        if kind == "JSON Lines":
            return pl.read_ndjson(opened, infer_schema_length=None)
        if kind == "Arrow IPC":
            if isinstance(file, Path):
                with contextlib.suppress(MissingExtraError):
                    return map_arrow(opened)[0]
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


def read_parquet(
    file: Path | str,
    taken: Callable[[str, pl.DataType], bool] | None = None,
    most: int | None = None,
) -> pl.DataFrame:
    """Read a Parquet file or URL.

    Args:
        file: the file.
        taken: returns whether to read a column, given its name and dtype; None reads all.
        most: the number of rows that are read at most.

    Raises:
        ManifestError: it is missing or damaged.
    """

    def read(opened: BinaryIO) -> pl.DataFrame:
        names = None
        if taken is not None:
            names = [
                name for name, dtype in pl.read_parquet_schema(opened).items() if taken(name, dtype)
            ]
            opened.seek(0)
        return pl.read_parquet(opened, columns=names, n_rows=most)

    return _read(file, "Parquet", read)


def read_arrow(
    file: Path, is_valid: Callable[[Any], bool] | None = None
) -> tuple[pl.DataFrame, dict[bytes, bytes]]:
    """Map an Arrow IPC file: see `map_arrow`; raises ManifestError if it is missing or damaged."""
    return _read(file, "Arrow IPC", lambda opened: map_arrow(opened, is_valid))


def parquet_columns(file: Path | str) -> list[str]:
    """Return the names of a Parquet file's columns, by its metadata; errors as `read_parquet`."""
    return _read(file, "Parquet", lambda opened: list(pl.read_parquet_schema(opened)))


def _read(file: Path | str, kind: str, read: Callable[[BinaryIO], _T]) -> _T:
    """Return what `read` makes of an open file."""
    name = file_name(file)
    try:
        with _open(file) as opened:
            return read(opened)
    except ManifestError:
        raise
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
