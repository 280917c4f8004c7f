"""The index of tar shards, which is read once and then cached, a file for each shard."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from gpufeed._util.limits import local_world_size
from gpufeed._util.progress import progress
from gpufeed._util.sanitize import sanitize
from gpufeed._util.thread_map import thread_map
from gpufeed.errors import ManifestError
from gpufeed.records.cached import cache_files, short_hash, write_cache
from gpufeed.records.table_files import count_rows, read_parquet
from gpufeed.records.webdataset.shard import BLOCK, IMAGE_COLUMNS, read_shard, schema
from gpufeed.records.webdataset.wanted import Wanted
from gpufeed.source.paths import PATH_CHARS
from gpufeed.source.storage import LocalStorage, Stamp, Storage

__all__ = ["index_shards"]

_VERSION = 1
"""Of the index: another one is not read."""
_THREADS = 8
"""Threads per machine: storage over a network makes them wait. Parsing holds the interpreter."""
_STAMP = {"bytes": pl.Int64, "version": pl.String}


def index_shards(
    storage: Storage,
    shards: Sequence[str],
    image: Wanted,
    values: Sequence[Wanted],
    *,
    show: bool | None,
) -> tuple[list[Stamp], list[pl.DataFrame]]:
    """Return the stamps of shards, and what `read_shard` returns of each.

    Shards that have been indexed before, and have the same stamp, are not read.

    Args:
        storage: has the shards.
        shards: their paths.
        image: the members that are images.
        values: the values to read.
        show: whether to show a progress bar; None shows it on a terminal only.

    Raises:
        ManifestError: a shard cannot be read, or is no tar.
    """
    wanted = json.dumps([_VERSION, str(image), *map(str, values)])
    threads = max(1, _THREADS // local_world_size())

    def stamp(shard: str) -> Stamp:
        try:
            return storage.stamp(shard)
        except OSError as error:
            raise _unreadable(storage, shard, error) from error

    def load(number: int) -> pl.DataFrame | None:
        return _load(_files(storage, shards[number], wanted), stamps[number], len(values))

    def read(number: int) -> pl.DataFrame:
        shard = shards[number]
        try:
            frame = read_shard(storage, shard, stamps[number], image, values)
        except OSError as error:
            raise _unreadable(storage, shard, error) from error
        stamped = frame.select(
            pl.lit(stamps[number].length, pl.Int64).alias("bytes"),
            pl.lit(stamps[number].version).alias("version"),
            pl.all(),
        )
        any(write_cache(file, stamped) for file in _files(storage, shard, wanted))
        return frame

    def ignore(_done: int) -> None:
        pass

    numbers = range(len(shards))
    stamps = thread_map(stamp, shards, threads=threads, done=ignore, name="gpufeed-stamps")
    frames = thread_map(load, numbers, threads=threads, done=ignore, name="gpufeed-index", chunk=1)
    unknown = [number for number in numbers if frames[number] is None]
    if unknown:
        with progress("Indexing shards", len(unknown), show=show, unit="shards") as done:
            new = thread_map(
                read, unknown, threads=threads, done=done, name="gpufeed-index", chunk=1
            )
        for number, frame in zip(unknown, new, strict=True):
            frames[number] = frame
    return stamps, [frame for frame in frames if frame is not None]


def _unreadable(storage: Storage, shard: str, error: OSError) -> ManifestError:
    name = sanitize(storage.name(shard), PATH_CHARS)
    return ManifestError(f"cannot read the shard {name}: {error.strerror or error}")


def _files(storage: Storage, shard: str, wanted: str) -> list[Path]:
    """Return the files that a shard's index may be in."""
    file = Path(storage.name(shard))
    folder = file.parent if isinstance(storage, LocalStorage) else None
    shared, own = short_hash(file.name, wanted), short_hash(str(file), wanted)
    return cache_files(folder, f"shard-{shared}", f"shard-{own}")


def _load(files: Sequence[Path], stamp: Stamp, values: int) -> pl.DataFrame | None:
    """Return a cached index that has this stamp, if there is one."""
    for file in files:
        # A damaged or forged one is ignored, and one of more samples than fit the shard.
        with contextlib.suppress(ManifestError):
            if not 0 < count_rows(file) <= 1 + stamp.length // BLOCK:
                continue
            frame = read_parquet(file)
            if frame.schema != {**_STAMP, **schema(values)} or frame.row(0)[:2] != stamp:
                continue
            images = frame.filter(pl.col("key").is_not_null(), pl.col("problem").is_null())
            if not any(images[name].null_count() for name in IMAGE_COLUMNS):
                return frame.drop(*_STAMP)
    return None
