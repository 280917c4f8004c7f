"""What is read from one file of a table of images, and checks that all kinds of files share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import polars as pl

from gpufeed._util.extras import import_extra
from gpufeed._util.sanitize import sanitize, short
from gpufeed.errors import ManifestError
from gpufeed.records.any_table import with_names
from gpufeed.records.table_files import FAILURES, first_line
from gpufeed.source.storage import Stamp

__all__ = [
    "UNREADABLE",
    "Part",
    "check_column",
    "import_pyarrow",
    "is_image",
    "other_columns",
    "row_names",
    "to_frame",
    "unreadable",
]

UNREADABLE = (OSError, NotImplementedError, *FAILURES)
"""What pyarrow and polars raise for a file that is missing or damaged."""


class Part(NamedTuple):
    """A file of a table of images.

    Attributes:
        path: of the file, in its storage.
        stamp: of the file.
        height: the number of its rows.
        frame: its other columns.
        paths: String, the field `path` of the images; None if they have none.
    """

    path: str
    stamp: Stamp
    height: int
    frame: pl.DataFrame
    paths: pl.Series | None


def import_pyarrow() -> Any:
    """Return pyarrow; raise `MissingExtraError` if it is not installed."""
    return import_extra("pyarrow", extra="arrow")


def is_image(arrow_type: Any) -> bool:
    """Return whether a type of pyarrow may be one of encoded images."""
    types = import_pyarrow().types
    if types.is_struct(arrow_type):
        index = arrow_type.get_field_index("bytes")
        return index >= 0 and _is_bytes(types, arrow_type.field(index).type)
    return _is_bytes(types, arrow_type)


def _is_bytes(types: Any, arrow_type: Any) -> bool:
    return any(
        check(arrow_type)
        for check in (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_null)
    )


def check_column(schema: Any, image: str, name: str) -> None:
    """Check that a schema of pyarrow has a column of images.

    Raises:
        ManifestError: it has no such column, or that holds something else.
    """
    if image not in schema.names:
        raise ManifestError(
            f"{name}: there is no column {short(image)}; the columns are "
            f"{sanitize(str(schema.names))}; pass image= with the name of the column of images"
        )
    arrow_type = schema.field(image).type
    if not is_image(arrow_type):
        raise ManifestError(
            f"{name}: column {image!r} must hold encoded images, as binary or as a struct of bytes "
            f"and path, not {sanitize(str(arrow_type))}; a column of paths is passed as path="
        )


def other_columns(schema: Any, image: str) -> list[str]:
    """Return the columns of a table that hold no images: structs with bytes are left out."""
    types = import_pyarrow().types
    return [
        field.name
        for field in schema
        if field.name != image and not (types.is_struct(field.type) and is_image(field.type))
    ]


def to_frame(table: Any) -> pl.DataFrame:
    """Return a table of pyarrow as a frame, with the class names that Hugging Face wrote."""
    frame = pl.DataFrame(table)
    try:
        features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
        return with_names(frame, features)
    except (AttributeError, KeyError, TypeError, ValueError):
        return frame


def row_names(heights: Iterable[int]) -> pl.Series:
    """Return the names of the rows of tables, one after the other: the numbers of each, from 0."""
    numbers = [pl.int_range(height, eager=True) for height in heights]
    return pl.concat(numbers).cast(pl.String)


def unreadable(name: str, kind: str, error: BaseException) -> ManifestError:
    """Return the error for a file that cannot be read as a table."""
    if isinstance(error, OSError):
        return ManifestError(f"cannot read {name}: {error.strerror or first_line(error)}")
    return ManifestError(f"{name} is not a valid {kind} file: {first_line(error)}")
