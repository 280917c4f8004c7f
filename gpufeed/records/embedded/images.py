"""Takes the images out of a table, of files or in memory, and leaves its other columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gpufeed._util.sanitize import short
from gpufeed.errors import ManifestError
from gpufeed.records.any_table import Table, join_files, load_table
from gpufeed.records.embedded.arrays import array_source, detached, is_mapped, path_field, roots_of
from gpufeed.records.embedded.arrow_files import read_arrow_files
from gpufeed.records.embedded.parquet import read_parquet_files
from gpufeed.records.embedded.part import (
    Part,
    check_column,
    import_pyarrow,
    other_columns,
    row_names,
)
from gpufeed.records.table_files import ARROW_FILES, PARQUET_FILES, ending, file_name, find_files
from gpufeed.source.chunks import ChunkStorage
from gpufeed.source.locate import common_folder, storage_of
from gpufeed.source.ranges import RangeSource
from gpufeed.source.storage import Storage

__all__ = ["is_dataset", "take_images"]


def take_images(
    table: Any, image: str, path: str, show: bool | None
) -> tuple[Table, RangeSource | None]:
    """Return a table without its column of images, and the images.

    Args:
        table: see `AnyTable`.
        image: its column of images.
        path: the column that gets the images' names, unless the table has it: the field `path` of
            the images if no two are the same, otherwise the file and the row.
        show: whether to show a progress bar; None shows it on a terminal only.

    Returns:
        The table; and its images, or None if the column has none but paths, which then are the
        column `image`.

    Raises:
        ManifestError: the table cannot be read, or has no such column of images.
    """
    files = find_files(table)
    if files is not None:
        loaded, source, paths, names = _of_files(files, image, show)
    elif is_dataset(table):
        loaded, source, paths, names = _of_dataset(table, image)
    else:
        loaded, source, paths, names = _of_frame(load_table(table, ()), image)
    frame = loaded.frame
    if paths is not None and (source.lengths < 0).all() and paths.null_count() == 0:
        return replace(loaded, frame=_with(frame, paths.alias(image))), None
    if path not in frame.columns:
        if paths is not None and paths.null_count() == 0 and paths.n_unique() == len(paths):
            names = paths
        loaded = replace(loaded, frame=_with(frame, names.alias(path)))
    return loaded, source


def _with(frame: pl.DataFrame, column: pl.Series) -> pl.DataFrame:
    """Add a column to a frame, which may have no other."""
    return frame.with_columns(column) if frame.width else column.to_frame()


_Taken = tuple[Table, RangeSource, pl.Series | None, pl.Series]
"""A table, its images, their own paths if they have such, and other names of them."""


def _of_files(files: Sequence[Path | str], image: str, show: bool | None) -> _Taken:
    kinds = {ending(file) in PARQUET_FILES for file in files}
    other = [file for file in files if ending(file) not in (*PARQUET_FILES, *ARROW_FILES)]
    if other:
        raise ManifestError(
            f"{file_name(other[0])} ends in {ending(other[0])!r}; a table with images must end in "
            f"one of {', '.join((*PARQUET_FILES, *ARROW_FILES))}"
        )
    if len(kinds) > 1:
        raise ManifestError(
            f"{file_name(files[0])} and others are of Parquet and Arrow; pass files of one kind"
        )
    storage, inside = _storage_of(files)
    parts: Sequence[Part]
    if kinds == {False}:
        parts, source = read_arrow_files(storage, inside, image)
    else:
        read = read_parquet_files(storage, inside, image, show)
        parts = [part for part, _ in read]
        layouts = [layout for _, layout in read]
        chunks = {part.path: layout.chunks for part, layout in read if layout.chunks is not None}
        source = RangeSource(
            ChunkStorage(storage, chunks) if chunks else storage,
            [part.path for part in parts],
            [part.stamp for part in parts],
            np.repeat(np.arange(len(parts)), [part.height for part in parts]),
            np.concatenate([layout.starts for layout in layouts]),
            np.concatenate([layout.lengths for layout in layouts]),
            row_names(part.height for part in parts),
        )
    paths = [part.paths for part in parts if part.paths is not None]
    names = pl.concat([pl.repeat(part.path, part.height, eager=True) for part in parts])
    return (
        join_files(files, [part.frame for part in parts]),
        source,
        pl.concat(paths) if len(paths) == len(parts) else None,
        names + "/" + source.names,
    )


def _storage_of(files: Sequence[Path | str]) -> tuple[Storage, list[str]]:
    """Return the storage of files, and their paths in it."""
    root, inside = common_folder(files)
    return storage_of(root), inside


def _of_frame(loaded: Table, image: str) -> _Taken:
    """Take the images of a table in memory; they are not copied."""
    pa = import_pyarrow()
    frame = loaded.frame
    empty = frame.clear().to_arrow(compat_level=pl.CompatLevel.newest())
    check_column(empty.schema, image, loaded.name)
    array = frame[image].rechunk().to_arrow(compat_level=pl.CompatLevel.newest())
    names = row_names([frame.height])
    arrays = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    source = array_source(arrays, names)
    others = frame.select(other_columns(empty.schema, image))
    return replace(loaded, frame=others), source, path_field(arrays), names


def is_dataset(table: object) -> bool:
    """Return whether a table is a `datasets.Dataset`."""
    return type(table).__module__ == "datasets.arrow_dataset" and hasattr(table, "_indices")


def _of_dataset(dataset: Any, image: str) -> _Taken:
    """Take the images of a `datasets.Dataset`, of the files that it has mapped, if any."""
    schema = dataset.data.schema
    check_column(schema, image, "the dataset")
    dropped = set(schema.names) - set(other_columns(schema, image))
    loaded = load_table(dataset.remove_columns(sorted(dropped)), ())
    loaded = replace(loaded, name="the dataset", frame=detached(loaded.frame))
    column = dataset.data.column(image)
    try:
        column.validate(full=True)  # of mapped files: offsets may lead anywhere in memory
    except ValueError as error:
        raise ManifestError(f"the dataset's column {short(image)} is damaged: {error}") from error
    arrays = [chunk for chunk in column.chunks if len(chunk)]
    mapped: dict[int, str] = {}
    for blocks in getattr(dataset.data, "blocks", [[dataset.data]]):
        for block in blocks:
            if image in block.column_names and getattr(block, "path", None):
                for chunk in block.column(image).chunks:
                    mapped |= dict.fromkeys(roots_of(chunk), block.path)
    names = row_names([len(dataset.data)])
    storage = None
    if mapped and all(is_mapped(array, mapped) for array in arrays):
        files = [Path(file) for file in dict.fromkeys(mapped.values())]
        storage, inside = _storage_of(files)
        inside_of = dict(zip(map(str, files), inside, strict=True))
        mapped = {address: inside_of[str(Path(file))] for address, file in mapped.items()}
    source = array_source(arrays, names, storage, mapped)
    paths = path_field(arrays)
    if dataset._indices is not None:
        rows = dataset._indices.column(0).to_numpy()
        source, names = source.take(rows), names.gather(rows)
        paths = None if paths is None else paths.gather(rows)
    return loaded, source, paths, names
