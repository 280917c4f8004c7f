"""Takes tables of several libraries, and table files, as polars frames."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from gpufeed._util.urls import location, public_url, split_url
from gpufeed.errors import ManifestError
from gpufeed.records.table_files import FAILURES, first_line, read_file

__all__ = ["AnyTable", "Table", "load_table"]


class ArrowTable(Protocol):
    """A table of a library that shares its data through Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a PyCapsule of the columns."""


class PolarsConvertible(Protocol):
    """A table with its own conversion, such as a `datasets.Dataset`."""

    def to_polars(self) -> Any:
        """Return the table as a polars DataFrame."""


AnyTable = (
    str
    | Path
    | pl.LazyFrame
    | ArrowTable
    | PolarsConvertible
    | Mapping[str, Sequence[Any]]
    | Sequence[Mapping[str, Any]]
)
"""A table file, its URL, or a table of polars, pandas, pyarrow, datasets or plain Python."""


@dataclass(frozen=True)
class Table:
    """A table as a polars frame.

    Attributes:
        frame: the table.
        name: its name in error messages.
        folder: the folder, or its URL, that its paths are relative to by default.
        from_text: whether it is a text file in which numbers and text look the same.
    """

    frame: pl.DataFrame
    name: str = "the table"
    folder: Path | str = Path()
    from_text: bool = False


def load_table(table: object, texts: Collection[str]) -> Table:
    """Return a table as a polars frame.

    Categories of pandas and the names of a `datasets.ClassLabel` become an Enum.

    Args:
        table: see `AnyTable`.
        texts: columns to read as text from a file that does not distinguish text from numbers.

    Raises:
        ManifestError: it is not a table, or cannot be read.
    """
    if isinstance(table, str | Path):
        where = location(table)
        read, from_text = read_file(where, texts)
        if isinstance(where, Path):
            return Table(read, str(where), where.parent, from_text)
        return Table(read, public_url(where), split_url(where)[0], from_text)
    kind = f"{type(table).__module__.partition('.')[0]}.{type(table).__qualname__}"
    kind = kind.removeprefix("builtins.")
    try:
        frame = _convert(table)
    except (*FAILURES, TypeError, ImportError, NotImplementedError) as error:
        raise ManifestError(f"this {kind} is not a valid table: {first_line(error)}") from error
    if frame is None:
        raise ManifestError(
            "a table must be a DataFrame of polars or pandas, a pyarrow.Table, a datasets.Dataset, "
            f"a dict of columns, a list of dicts, or a file, not {kind}"
        )
    return Table(frame)


def _convert(table: Any) -> pl.DataFrame | None:
    """Return a table as a frame, or None if it is not a table."""
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, pl.LazyFrame):
        return table.collect()
    if hasattr(table, "to_polars"):
        frame: pl.DataFrame = table.to_polars()
        features = getattr(table, "features", None) or {}
        return frame.with_columns(
            _enum(frame[name], feature.names)
            for name, feature in features.items()
            if getattr(feature, "names", None)
        )
    if hasattr(table, "__arrow_c_stream__"):
        columns = list(table.items()) if hasattr(table, "iloc") else []
        paths = {name: column.map(os.fspath) for name, column in columns if _are_paths(column)}
        frame = pl.DataFrame(table.assign(**paths) if paths else table)
        return frame.with_columns(
            _enum(pl.Series(str(name), column.cat.codes.to_numpy()), column.cat.categories)
            for name, column in columns
            if hasattr(column, "cat")
        )
    if isinstance(table, Mapping) and not any(hasattr(each, "features") for each in table.values()):
        return pl.DataFrame(table)
    if isinstance(table, list | tuple) and all(isinstance(row, Mapping) for row in table):
        return pl.DataFrame(table, infer_schema_length=None)
    return None


def _are_paths(column: Any) -> bool:
    """Return whether a column of pandas holds paths of pathlib, which Arrow does not take."""
    return column.dtype == object and all(isinstance(each, os.PathLike) for each in column)


def _enum(codes: pl.Series, names: Sequence[object]) -> pl.Series:
    """Return the names of codes, which are their indices; null for a code that has none."""
    texts = [str(name) for name in names]
    return codes.replace_strict(range(len(texts)), texts, default=None, return_dtype=pl.Enum(texts))
