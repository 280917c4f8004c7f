"""Reads image sizes from headers, in parallel, and caches them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

import polars as pl

from gpufeed._util.limits import local_world_size
from gpufeed._util.progress import progress
from gpufeed._util.thread_map import thread_map
from gpufeed._util.urls import location
from gpufeed.decode.headers import ImageHeader, check_depth, image_header
from gpufeed.errors import ManifestError
from gpufeed.records.bad_images import OnBadImage, bad_images_error
from gpufeed.records.cached import cache_files, short_hash, write_cache
from gpufeed.records.table_files import count_rows, read_parquet
from gpufeed.source.base import Source, open_image
from gpufeed.source.buffers import BufferStorage
from gpufeed.source.files import PathSource
from gpufeed.source.ranges import RangeSource
from gpufeed.source.selection import take
from gpufeed.source.zipped import ZipSource

__all__ = ["read_sizes", "with_sizes"]

_Stamp = tuple[int, int]

CachedSizes = dict[str, tuple[int, int, int, int, int]]
"""Maps a path to the two numbers of `PathSource.stamp`, and its image's width, height and bits per
channel."""

_SCHEMA = {
    "path": pl.String,
    "bytes": pl.Int64,
    "mtime_ns": pl.Int64,
    "width": pl.Int32,
    "height": pl.Int32,
    "bits": pl.Int32,
}
_THREADS = 32
"""Threads per machine, more than cores, since most of them wait for network storage."""
_MAX_CACHED = 1 << 20
_MAX_STORED = 1 << 24
"""Rows of a cache that are read."""
_ADVICE = 'inspect them with `gpufeed check`, or leave them out with on_bad_image="drop"'


def with_sizes(
    frame: pl.DataFrame,
    source: Source,
    *,
    show: bool | None,
    on_bad_image: OnBadImage,
    reduce_depth: bool,
) -> tuple[pl.DataFrame, Source, dict[str, int]]:
    """Add `width` and `height` to a frame: see `read_sizes`.

    Returns:
        The frame and the source without the unreadable images, if these are dropped; and how many
        were dropped, for `repairs`.

    Raises:
        ManifestError: an image is bad and `on_bad_image` is "raise", or all are bad.
    """
    sizes = read_sizes(
        source, frame.height, show=show, on_bad_image=on_bad_image, reduce_depth=reduce_depth
    )
    frame = frame.with_columns(sizes)
    readable = frame["width"].is_not_null()
    if readable.all():
        return frame, source, {}
    kept = take(source, readable.arg_true().to_numpy())
    return frame.filter(readable), kept, {"images_dropped": int((~readable).sum())}


def read_sizes(
    source: Source,
    count: int,
    *,
    show: bool | None = None,
    on_bad_image: OnBadImage = "raise",
    reduce_depth: bool = False,
) -> pl.DataFrame:
    """Return the width and height of each image, with its EXIF orientation applied.

    Sizes of files, and of ranges of files, are cached in the user's cache folder, and reused for
    files of the same length and modification time; in an object store, of the same length and
    ETag. If there is a folder `.gpufeed` in the root, they are cached there instead, for everyone
    who shares the images.

    Args:
        source: the images.
        count: number of images.
        show: whether to show a progress bar; None shows it on a terminal only.
        on_bad_image: "drop" returns null for a bad image, unless all are bad.
        reduce_depth: whether an image may have 16 bits per channel.

    Returns:
        The columns `width` and `height`, Int32, in pixels, one row for each key.

    Raises:
        ManifestError: an image or its header cannot be read, or it is too deep; the message names
            the first few.
    """
    sizes: list[tuple[int | None, int | None]] = [(None, None)] * count
    failures: dict[int, Exception] = {}
    stamped = _stamped(source)
    cached = _load(stamped.root, stamped.paths) if stamped else {}
    read: CachedSizes = {}

    def read_size(key: int) -> None:
        try:
            header = None
            path = stamped.paths[key] if stamped else ""
            known = cached.get(path)
            if stamped and known is not None and known[:2] == stamped.stamp(key):
                width, height, bits = known[2:]
                header = ImageHeader(width, height, bits=bits)
            if header is None:
                opened, stamp = stamped.open(key) if stamped else (open_image(source, key), None)
                with opened:
                    header = image_header(opened)
                if stamp is not None:
                    read[path] = *stamp, *header[:2], header.bits
            check_depth(header, reduce_depth=reduce_depth)
            sizes[key] = header[:2]
        except (OSError, ValueError) as error:
            failures[key] = error

    with progress("Reading image sizes", count, show=show, unit="images") as done:
        threads = max(1, _THREADS // local_world_size())
        chunk = min(64, -(-count // (4 * threads)))
        thread_map(
            read_size, range(count), threads=threads, done=done, name="gpufeed-sizes", chunk=chunk
        )
    if read and stamped:
        _store(stamped.root, read)
    if len(failures) > (count - 1 if on_bad_image == "drop" else 0):
        raise bad_images_error(source, failures, count, "images", _ADVICE)
    return pl.DataFrame(sizes, schema={"width": pl.Int32, "height": pl.Int32}, orient="row")


class _Stamped(NamedTuple):
    """Images whose sizes may be cached.

    Attributes:
        root: the folder of the images or its URL, or what else their names are relative to.
        paths: String, (n,), the name of each.
        stamp: returns its number of bytes, and a number that changes with its content.
        open: opens it, and returns its stamp too, or None if nothing tells that it changes.
    """

    root: Path | str
    paths: pl.Series
    stamp: Callable[[int], _Stamp]
    open: Callable[[int], tuple[BinaryIO, _Stamp | None]]


def _stamped(source: Source) -> _Stamped | None:
    if isinstance(source, PathSource):
        return _Stamped(source.root, source.paths, source.stamp, source.open_stamped)
    if isinstance(source, ZipSource):
        root, paths = source.root, source.paths
    elif isinstance(source, RangeSource) and not isinstance(source.storage, BufferStorage):
        root, paths = location(source.storage.name("")), source.places()
    else:
        return None
    if not all(stamp.version for stamp in source.stamps):
        return None
    return _Stamped(root, paths, source.stamp, lambda key: (source.open(key), source.stamp(key)))


def _cache_files(root: Path | str) -> list[Path]:
    """Return the files in which sizes may be cached, in order of preference."""
    if isinstance(root, str):
        return cache_files(None, "sizes", f"sizes-{short_hash(root)}")
    return cache_files(root, "sizes", f"sizes-{short_hash(os.fspath(root.resolve()))}")


def _load(root: Path | str, paths: pl.Series) -> CachedSizes:
    """Return the cached sizes of files; a cache that is damaged or has another schema is ignored.

    A folder `.gpufeed` may have come with the images, so a cache that would take much memory is
    ignored, and so are sizes that are none.
    """
    cached: CachedSizes = {}
    most = max(_MAX_CACHED, 16 * len(paths))
    for file in reversed(_cache_files(root)):  # the preferred file overrides the others
        with contextlib.suppress(ManifestError):
            if count_rows(file) > most:
                continue
            frame = read_parquet(file)
            if frame.schema == _SCHEMA:
                positive = (pl.col("width") > 0) & (pl.col("height") > 0)
                frame = frame.drop_nulls().filter(positive, pl.col("path").is_in(paths.to_list()))
                cached |= {row[0]: row[1:] for row in frame.iter_rows()}
    return cached


def _store(root: Path | str, sizes: CachedSizes) -> None:
    """Add sizes to the first cache that can be written, if any."""
    rows = [(path, *values) for path, values in sizes.items()]
    added = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    for file in _cache_files(root):
        frame = added
        with contextlib.suppress(ManifestError):
            known = read_parquet(file) if count_rows(file) <= _MAX_STORED else added.clear()
            if known.schema == _SCHEMA:
                frame = pl.concat([known.join(added, on="path", how="anti"), added])
        if write_cache(file, frame):
            return
