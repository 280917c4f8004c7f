"""The index of tar shards, which is read once and then cached, a file for each shard."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from gpufeed._util.limits import local_world_size
from gpufeed._util.progress import progress
from gpufeed._util.sanitize import sanitize
from gpufeed._util.thread_map import thread_map
from gpufeed.errors import ManifestError
from gpufeed.records.cached import FileFacts
from gpufeed.records.webdataset.shard import BLOCK, SCHEMA, is_sound, read_shard
from gpufeed.records.webdataset.values import (
    VALUE_COLUMNS,
    read_values,
    samples_of,
    value_columns,
)
from gpufeed.records.webdataset.wanted import Wanted
from gpufeed.source.paths import PATH_CHARS
from gpufeed.source.storage import Stamp, Storage

__all__ = ["index_shards"]

_THREADS = 8
"""Threads per machine: storage over a network makes them wait. Parsing holds the interpreter."""


def index_shards(
    storage: Storage,
    shards: Sequence[str],
    image: Wanted,
    values: Sequence[Wanted],
    *,
    show: bool | None,
) -> tuple[list[Stamp], list[pl.DataFrame]]:
    """Return the stamps of shards, and what `samples_of` returns of each.

    Of shards that have been indexed before, and have the same stamp, only values are read that have
    not been wanted before.

    Args:
        storage: has the shards.
        shards: their paths.
        image: the members that are images.
        values: the values to read.
        show: whether to show a progress bar; None shows it on a terminal only.

    Raises:
        ManifestError: a shard cannot be read, or is no tar.
    """
    threads = max(1, _THREADS // local_world_size())
    columns = [name for value in values for name in value_columns(value)]

    def stamp(shard: str) -> Stamp:
        try:
            return storage.stamp(shard)
        except OSError as error:
            raise _unreadable(storage, shard, error) from error

    def facts(number: int) -> FileFacts:
        return FileFacts("shard", storage, shards[number], stamps[number], str(image))

    def load(number: int) -> pl.DataFrame | None:
        """Return a cached index that may lack some values."""
        length = stamps[number].length
        most = 1 + 2 * (length // BLOCK)  # a member has a header, and a sample a member
        return facts(number).read(
            SCHEMA, most, lambda index: index if is_sound(index, length) else None, VALUE_COLUMNS
        )

    def complete(number: int) -> pl.DataFrame:
        shard, stamp, index = shards[number], stamps[number], frames[number]
        try:
            if index is None:
                index = read_shard(storage, shard, stamp, image)
            for value in values:
                if not set(value_columns(value)) <= set(index.columns):
                    index = index.with_columns(read_values(storage, shard, stamp, index, value))
        except OSError as error:
            raise _unreadable(storage, shard, error) from error
        facts(number).write(index)
        return index

    def ignore(_done: int) -> None:
        pass

    numbers = range(len(shards))
    stamps = thread_map(stamp, shards, threads=threads, done=ignore, name="gpufeed-stamps")
    frames = thread_map(load, numbers, threads=threads, done=ignore, name="gpufeed-index", chunk=1)
    unknown = [
        number
        for number, index in enumerate(frames)
        if index is None or not set(columns) <= set(index.columns)
    ]
    if unknown:
        with progress("Indexing shards", len(unknown), show=show, unit="shards") as done:
            new = thread_map(
                complete, unknown, threads=threads, done=done, name="gpufeed-index", chunk=1
            )
        for number, index in zip(unknown, new, strict=True):
            frames[number] = index
    return stamps, [samples_of(index, values) for index in frames if index is not None]


def _unreadable(storage: Storage, shard: str, error: OSError) -> ManifestError:
    name = sanitize(storage.name(shard), PATH_CHARS)
    return ManifestError(f"cannot read the shard {name}: {error.strerror or error}")
