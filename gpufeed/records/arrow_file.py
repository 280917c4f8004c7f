"""Arrow IPC files: mapped into memory, which the processes of a machine share, and written."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any, BinaryIO

import polars as pl

from gpufeed._util.extras import import_extra

__all__ = ["map_arrow", "write_arrow"]


def map_arrow(
    opened: BinaryIO, is_valid: Callable[[Any], bool] | None = None
) -> tuple[pl.DataFrame, dict[bytes, bytes]]:
    """Return the table in an open file, and its metadata.

    Columns are views of the file, which is mapped into memory, unless they are compressed or polars
    keeps them in another form. So the file may be replaced by another, but not be written to.

    Args:
        opened: the file.
        is_valid: returns for the file's schema whether the file is known to be undamaged; None if
            it is not. Otherwise offsets and text are checked, which in a damaged file may lead
            anywhere in memory. This takes 20 ms of CPU time for a million rows, and reads them.

    Raises:
        MissingExtraError: pyarrow is not installed.
        ValueError: the file is not a valid Arrow IPC file.
    """
    arrow = import_extra("pyarrow", extra="arrow")
    mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        with arrow.ipc.open_file(arrow.py_buffer(mapped)) as reader:
            valid = is_valid is not None and is_valid(reader.schema)
            table = reader.read_all()
        table.validate(full=not valid)
    except arrow.ArrowException as error:  # some are no ValueErrors
        raise ValueError(str(error)) from error
    frame = pl.from_arrow(table, rechunk=False)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - for type checkers
    return frame, table.schema.metadata or {}


def write_arrow(
    file: BinaryIO, frame: pl.DataFrame, describe: Callable[[Any], dict[bytes, bytes]]
) -> None:
    """Write a table, a record batch for each of its chunks, so that nothing is copied.

    Args:
        file: the file.
        frame: the table.
        describe: returns the metadata for the table's schema.

    Raises:
        MissingExtraError: pyarrow is not installed.
        OSError: the file cannot be written.
    """
    arrow = import_extra("pyarrow", extra="arrow")
    if len(set(frame.n_chunks("all"))) > 1:
        frame = frame.rechunk()  # each part of a longer chunk would be written with all its text
    table = frame.to_arrow(compat_level=pl.CompatLevel.newest())
    table = table.replace_schema_metadata(describe(table.schema))
    with arrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
