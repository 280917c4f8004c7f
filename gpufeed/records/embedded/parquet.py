"""Images inside Parquet files: where they are is found once, and cached."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from gpufeed._util.limits import available_threads
from gpufeed._util.progress import progress
from gpufeed._util.thread_map import thread_map
from gpufeed.errors import ManifestError
from gpufeed.records.cached import FileFacts
from gpufeed.records.embedded.arrays import path_field
from gpufeed.records.embedded.layout import (
    COLUMNS,
    Layout,
    from_table,
    join_layouts,
    to_table,
)
from gpufeed.records.embedded.pages import UnknownLayoutError, locate_images
from gpufeed.records.embedded.part import (
    UNREADABLE,
    Part,
    check_column,
    import_pyarrow,
    other_columns,
    to_frame,
    unreadable,
)
from gpufeed.source.storage import Storage

__all__ = ["read_parquet_files"]

_THREADS = 8
"""Threads that read files; each may hold a page, of which a row group may have only one."""
_SMALLEST_BLOCK = 1 << 14
"""Bytes that a block of Snappy has at least, if it is one of images."""
_MAX_CHUNK = 1 << 23
"""Bytes decompressed for one image, above which a warning says what to do."""
_REWRITE = (
    "python -c \"import pyarrow.parquet as pq; pq.write_table(pq.read_table('old.parquet'), "
    "'new.parquet', compression='none', use_dictionary=False)\""
)


def read_parquet_files(
    storage: Storage, paths: Sequence[str], image: str, show: bool | None
) -> list[tuple[Part, Layout]]:
    """Read tables of images from Parquet files.

    Args:
        storage: has the files.
        paths: of the files.
        image: the column of images.
        show: whether to show a progress bar; None shows it on a terminal only.

    Raises:
        ManifestError: a file cannot be read, has no such column, or stores it in a way in which
            single images cannot be read.
    """
    files = [_File(storage, path, image) for path in paths]
    unknown = [(file, group) for file in files if not file.layouts for group in range(file.groups)]
    total = sum(file.part.height for file in files if not file.layouts)
    with progress("Locating images", total, show=show if unknown else False, unit="images") as done:

        def locate_group(item: tuple[_File, int]) -> Layout:
            file, group = item
            layout = file.locate(group)
            done(len(layout.starts))
            return layout

        located = thread_map(
            locate_group,
            unknown,
            threads=min(available_threads(), _THREADS),
            done=lambda _: None,
            name="gpufeed-locate",
            chunk=1,
        )
    for (file, _), layout in zip(unknown, located, strict=True):
        file.layouts.append(layout)
    read = [(file.part, file.finish()) for file in files]
    slow = [part for part, layout in read if _largest(layout) > _MAX_CHUNK]
    if slow:
        largest = max(_largest(layout) for _, layout in read)
        warnings.warn(
            f"{len(slow)} of {len(read)} files, such as {storage.name(slow[0].path)}, are "
            f"compressed in pages of up to {largest >> 20} MB, of which one is decompressed for "
            f"each image; to feed it faster, rewrite it: {_REWRITE}",
            stacklevel=6,
        )
    return read


def _largest(layout: Layout) -> int:
    """Return the largest number of bytes that are decompressed at once."""
    return 0 if layout.chunks is None else int(np.diff(layout.chunks.begins).max(initial=0))


class _File:
    """A Parquet file: its other columns, and where the images of its row groups are."""

    def __init__(self, storage: Storage, path: str, image: str) -> None:
        self._storage = storage
        self._name = storage.name(path)
        pa = import_pyarrow()
        from pyarrow import parquet

        try:
            stamp = storage.stamp(path)
            with storage.open(path) as opened:
                file = parquet.ParquetFile(opened)
                schema = file.schema_arrow
                check_column(schema, image, self._name)
                others = other_columns(schema, image)
                kind = schema.field(image).type
                names = [field.name for field in kind] if pa.types.is_struct(kind) else []
                with_path = "path" in names
                self._all_null = pa.types.is_null(kind.field("bytes").type if names else kind)
                table = file.read([*others, f"{image}.path"] if with_path else others)
                self._metadata = file.metadata
            paths = path_field(table[image].chunks) if with_path else None
            frame = to_frame(table.select(others))
        except ManifestError:
            raise
        except UNREADABLE as error:
            raise unreadable(self._name, "Parquet", error) from error
        columns = [
            self._metadata.schema.column(number) for number in range(self._metadata.num_columns)
        ]
        wanted = (image, f"{image}.bytes")
        self._column = next(i for i, each in enumerate(columns) if each.path in wanted)
        self._schema = columns[self._column]
        self.part = Part(path, stamp, self._metadata.num_rows, frame, paths)
        self.groups = self._metadata.num_row_groups
        self._facts = FileFacts("images", storage, path, stamp, self._schema.path)
        count, size = self._metadata.num_rows, stamp.length
        known = self._facts.read(
            COLUMNS,
            1 + self.groups + count + size // _SMALLEST_BLOCK,
            lambda table: from_table(table, count, size),
        )
        self._known = known is not None
        self.layouts = [known] if known is not None else []

    def locate(self, group: int) -> Layout:
        """Return where the images of a row group are."""
        if self._all_null:
            height = self._metadata.row_group(group).num_rows
            return Layout(np.zeros(height, np.int64), np.full(height, -1), None)
        chunk = self._metadata.row_group(group).column(self._column)
        try:
            with self._storage.open(self.part.path) as opened:
                return locate_images(opened, chunk, self._schema)
        except UnknownLayoutError as error:
            raise ManifestError(
                f"{self._name} stores its images as {error}, in which single ones cannot be found; "
                f"rewrite it: {_REWRITE}"
            ) from error
        except UNREADABLE as error:
            raise unreadable(self._name, "Parquet", error) from error

    def finish(self) -> Layout:
        """Return where all its images are, and keep it in the cache."""
        layout = join_layouts(self.layouts, self.part.stamp.length)
        if not self._known:
            self._facts.write(to_table(layout))
        return layout
