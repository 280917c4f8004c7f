"""Images inside Parquet files: where they are is found once, and cached."""

from __future__ import annotations

import contextlib
import hashlib
import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpufeed._util.atomic_write import atomic_write
from gpufeed._util.cache_folder import cache_folder
from gpufeed._util.limits import available_threads
from gpufeed._util.progress import progress
from gpufeed._util.thread_map import thread_map
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.embedded.arrays import path_field
from gpufeed.records.embedded.pages import Layout, UnknownLayoutError, locate_images
from gpufeed.records.embedded.part import (
    UNREADABLE,
    Part,
    check_column,
    import_pyarrow,
    other_columns,
    to_frame,
    unreadable,
)
from gpufeed.source.chunks import Chunks
from gpufeed.source.storage import Storage

__all__ = ["read_parquet_files"]

_VERSION = 1
_THREADS = 8
"""Threads that read files; each may hold a page, of which a row group may have only one."""
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
        known = self._load()
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
        layout = _join(self.layouts, self.part.stamp.length)
        if not self._known:
            self._store(layout)
        return layout

    def _cache(self) -> Path:
        key = repr((_VERSION, self._name, self.part.stamp, self._schema.path))
        return cache_folder() / f"images-{hashlib.sha256(key.encode()).hexdigest()[:32]}.npz"

    def _load(self) -> Layout | None:
        """Return what was found before, for a file of the same name and stamp."""
        with contextlib.suppress(ConfigError, OSError, ValueError, KeyError, EOFError):
            with np.load(self._cache(), allow_pickle=False) as kept:
                chunks = [kept[name] for name in Chunks.__annotations__ if name in kept]
                layout = Layout(
                    kept["starts"], kept["lengths"], Chunks(*chunks) if chunks else None
                )
            if len(layout.starts) == len(layout.lengths) == self.part.height:
                return layout
        return None

    def _store(self, layout: Layout) -> None:
        buffer = io.BytesIO()
        chunks: dict[str, Any] = {} if layout.chunks is None else vars(layout.chunks)
        np.savez(buffer, starts=layout.starts, lengths=layout.lengths, **chunks)
        with contextlib.suppress(ConfigError, OSError):
            file = self._cache()
            file.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(file, buffer.getvalue())


def _join(layouts: Sequence[Layout], size: int) -> Layout:
    """Return the layout of a file of `size` bytes, of those of its row groups."""
    if all(each.chunks is None for each in layouts):
        empty = np.zeros(0, np.int64)
        starts = np.concatenate([empty, *(each.starts for each in layouts)])
        return Layout(starts, np.concatenate([empty, *(each.lengths for each in layouts)]), None)
    # A row group that is not compressed is in the file as it is.
    whole = Chunks(np.array([0, size]), np.array([0]), np.array([size]), np.zeros(1, np.uint8))
    parts = [layout.chunks or whole for layout in layouts]
    ends = np.cumsum([part.begins[-1] for part in parts])
    firsts = [0, *ends[:-1].tolist()]
    begins = [first + part.begins[:-1] for first, part in zip(firsts, parts, strict=True)]
    return Layout(
        np.concatenate([first + each.starts for first, each in zip(firsts, layouts, strict=True)]),
        np.concatenate([each.lengths for each in layouts]),
        Chunks(
            np.concatenate([*begins, ends[-1:]]),
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("offsets", "sizes", "codecs")
            ),
        ),
    )
