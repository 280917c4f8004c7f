"""Takes tables of several libraries, and table files, as polars frames."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from gpufeed._util.sanitize import sanitize
from gpufeed.errors import ManifestError
from gpufeed.records.table_files import FAILURES, file_name, find_files, first_line, read_file
from gpufeed.source.locate import common_folder

__all__ = ["AnyTable", "Table", "join_files", "load_table", "take_apart", "with_names"]


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
    | Sequence[str | Path]
)
"""Table files, or their URLs, or a table of polars, pandas, pyarrow, datasets or plain Python."""


@dataclass(frozen=True)
class Table:
    """A table as a polars frame.

    Attributes:
        frame: the table.
        name: its name in error messages.
        folder: the folder, or its URL, that its paths are relative to by default.
        from_text: whether it is a text file in which numbers and text look the same.
        files: the name of each of several files, and the number of its rows.
    """

    frame: pl.DataFrame
    name: str = "the table"
    folder: Path | str = Path()
    from_text: bool = False
    files: Sequence[tuple[str, int]] = ()

    def row_name(self, row: int) -> str:
        """Return the name of a row, given its number from 0, in error messages."""
        for name, height in self.files:
            if row < height:
                return f"{name}, row {row}"
            row -= height
        return f"{self.name}, row {row}"


def load_table(table: object, texts: Collection[str]) -> Table:
    """Return a table as a polars frame.

    Categories of pandas and the names of a `datasets.ClassLabel` become an Enum.

    Args:
        table: see `AnyTable`.
        texts: columns to read as text from a file that does not distinguish text from numbers.

    Raises:
        ManifestError: it is not a table, or cannot be read.
    """
    if (files := find_files(table)) is not None:
        read = [read_file(file, texts) for file in files]
        return join_files(files, [frame for frame, _ in read], all(text for _, text in read))
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


def join_files(
    files: Sequence[Path | str], frames: Sequence[pl.DataFrame], from_text: bool = False
) -> Table:
    """Return the tables of several files, one after the other, as one.

    Raises:
        ManifestError: their columns differ.
    """
    folder, _ = common_folder(files)
    name = file_name(files[0])
    if len(files) == 1:
        return Table(frames[0], name, folder, from_text)
    for file, frame in zip(files, frames, strict=True):
        if set(frame.columns) != set(frames[0].columns):
            raise ManifestError(
                f"{file_name(file)} has the columns {sanitize(str(frame.columns))}, but {name} has "
                f"{sanitize(str(frames[0].columns))}; the files of a table must have the same"
            )
    for column in frames[0].columns:
        # Text files say of a column without values that it is text, and of whole numbers no more.
        dtypes = {each[column].dtype for each in frames if each[column].null_count() < each.height}
        if len(dtypes) > 1 and not all(dtype.is_numeric() for dtype in dtypes):
            raise ManifestError(
                f"column {column!r} is of several types in {name} and {len(files) - 1} "
                f"other files: {sanitize(', '.join(sorted(map(str, dtypes))))}"
            )
        if len(dtypes) == 1:
            frames = [each.with_columns(pl.col(column).cast(*dtypes)) for each in frames]
    joined = pl.concat([each.select(frames[0].columns) for each in frames], how="vertical_relaxed")
    parts = [(file_name(file), frame.height) for file, frame in zip(files, frames, strict=True)]
    return Table(joined, f"{name} and {len(files) - 1} more", folder, from_text, parts)


def _convert(table: Any) -> pl.DataFrame | None:
    """Return a table as a frame, or None if it is not a table."""
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, pl.LazyFrame):
        return table.collect()
    if hasattr(table, "to_polars"):
        if hasattr(table, "data"):
            table.data.validate(full=True)  # of mapped files: offsets may lead anywhere in memory
        frame: pl.DataFrame = table.to_polars()
        features: Any = getattr(table, "features", None)
        return with_names(frame, features.to_dict() if hasattr(features, "to_dict") else {})
    if hasattr(table, "__arrow_c_stream__"):
        columns = list(table.items()) if hasattr(table, "iloc") else []
        paths = {name: column.map(os.fspath) for name, column in columns if _are_paths(column)}
        frame = pl.DataFrame(table.assign(**paths) if paths else table)
        return frame.with_columns(
            _enum(pl.lit(pl.Series(column.cat.codes.to_numpy())), column.cat.categories).alias(
                str(name)
            )
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


def with_names(frame: pl.DataFrame, features: Mapping[str, Any]) -> pl.DataFrame:
    """Return a frame with the names of classes in the place of their numbers.

    Args:
        frame: a table of Hugging Face.
        features: its features as JSON. They may name the classes of a column, of the items of
            lists, and of the fields of structs.
    """
    found = [
        _named(pl.col(name), frame.schema[name], feature)
        for name, feature in features.items()
        if name in frame.columns
    ]
    return frame.with_columns(each for each in found if each is not None)


def _named(values: pl.Expr, dtype: Any, feature: Mapping[str, Any]) -> pl.Expr | None:
    """Return the names of values; None if the feature has none."""
    items = feature.get("feature", feature)
    if isinstance(dtype, pl.List):
        named = _named(pl.element(), dtype.inner, items)
        return None if named is None else values.list.eval(named)
    if isinstance(dtype, pl.Struct):
        inside = [
            _named(pl.field(field.name), field.dtype, items[field.name])
            for field in dtype.fields
            if field.name in items
        ]
        fields = [each for each in inside if each is not None]
        return values.struct.with_fields(*fields) if fields else None
    names = feature.get("names")
    return _enum(values, names) if names else None


def _enum(codes: pl.Expr, names: Iterable[object]) -> pl.Expr:
    """Return the names of codes, which are their indices; null for a code that has none."""
    texts = [str(name) for name in names]
    dtype = pl.Enum(texts)
    return codes.replace_strict(range(len(texts)), texts, default=None, return_dtype=dtype)


def take_apart(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Return a frame with columns for the fields of structs that are named, as "objects.bbox".

    A column of structs of lists, or of lists of structs, becomes one of lists for each field.
    """
    for column in dict.fromkeys(name.partition(".")[0] for name in names):
        dtype: Any = frame.schema.get(column)
        item = getattr(dtype, "inner", dtype)
        if isinstance(item, pl.Struct) and isinstance(dtype, pl.List | pl.Struct):
            fields = [
                (
                    pl.col(column).struct.field(field.name)
                    if item is dtype
                    else pl.col(column).list.eval(pl.element().struct.field(field.name))
                ).alias(f"{column}.{field.name}")
                for field in item.fields
            ]
            frame = frame.with_columns(fields).drop(column)
    return frame
