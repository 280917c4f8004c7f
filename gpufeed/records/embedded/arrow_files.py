"""Images inside files of Arrow IPC, of its file format and of its stream format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpufeed.errors import ManifestError
from gpufeed.records.embedded.arrays import array_source, detached, is_mapped, path_field
from gpufeed.records.embedded.part import (
    UNREADABLE,
    Part,
    check_column,
    import_pyarrow,
    other_columns,
    row_names,
    to_frame,
    unreadable,
)
from gpufeed.records.table_files import file_name
from gpufeed.source.locate import common_folder, storage_of
from gpufeed.source.ranges import RangeSource
from gpufeed.source.storage import LocalStorage, Storage

__all__ = ["arrow_columns", "read_arrow_files"]

_FILE_FORMAT = b"ARROW1"
_REWRITE = (
    'python -c "from pyarrow import feather; feather.write_feather(feather.read_table('
    "'old.arrow'), 'new.arrow', compression='uncompressed')\""
)


def read_arrow_files(
    storage: Storage, paths: Sequence[str], image: str
) -> tuple[list[Part], RangeSource]:
    """Read tables of images from Arrow files; the images are ranges of the files.

    Args:
        storage: has the files.
        paths: of the files.
        image: the column of images.

    Raises:
        ManifestError: a file cannot be read, has no such column, or is compressed.
    """
    import_pyarrow()
    parts, arrays = [], []
    mapped: dict[int, str] = {}
    for path in paths:
        name = storage.name(path)
        try:
            stamp = storage.stamp(path)
            whole = _content(storage, path)
            table = _open(whole).read_all()
            check_column(table.schema, image, name)
            table.validate(full=True)  # without, offsets may lead anywhere in memory
            column = [chunk for chunk in table[image].chunks if len(chunk)]
            frame = detached(to_frame(table.select(other_columns(table.schema, image))))
            part = Part(path, stamp, table.num_rows, frame, path_field(column))
        except ManifestError:
            raise
        except UNREADABLE as error:
            raise unreadable(name, "Arrow", error) from error
        mapped[whole.address] = path
        if not all(is_mapped(array, mapped) for array in column):
            raise ManifestError(
                f"{name} is compressed, so single images cannot be read; rewrite it: {_REWRITE}"
            )
        parts.append(part)
        arrays += column
    try:
        source = array_source(arrays, row_names(part.height for part in parts), storage, mapped)
    except ValueError as error:
        raise unreadable(", ".join(map(storage.name, paths[:1])), "Arrow", error) from error
    return parts, source


def arrow_columns(file: Path | str) -> list[str]:
    """Return the names of an Arrow file's columns; raises ManifestError if it cannot be read."""
    import_pyarrow()
    try:
        root, (name,) = common_folder([file])
        names: list[str] = _open(_content(storage_of(root), name)).schema.names
    except UNREADABLE as error:
        raise unreadable(file_name(file), "Arrow", error) from error
    return names


def _content(storage: Storage, path: str) -> Any:
    """Return the content of a file as a buffer, mapped where the file is on this machine."""
    import pyarrow as pa

    with storage.open(path) as opened:
        if not isinstance(storage, LocalStorage):
            return pa.py_buffer(opened.read())
        with pa.memory_map(storage.name(path)) as file:
            return file.read_buffer()


def _open(whole: Any) -> Any:
    """Return a reader of Arrow IPC; raises ValueError if the content is something else."""
    from pyarrow import BufferReader, ipc

    if memoryview(whole)[: len(_FILE_FORMAT)] == _FILE_FORMAT:
        return ipc.open_file(BufferReader(whole))
    return ipc.open_stream(BufferReader(whole))
