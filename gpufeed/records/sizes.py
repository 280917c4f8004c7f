"""Reads image sizes from headers, in parallel, and caches them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from pathlib import Path

import polars as pl

from gpufeed._util.atomic_write import atomic_write
from gpufeed._util.cache_folder import cache_folder
from gpufeed._util.limits import local_world_size
from gpufeed._util.progress import progress
from gpufeed._util.thread_map import thread_map
from gpufeed.decode.headers import ImageHeader, check_depth, image_header
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.bad_images import OnBadImage, bad_images_error
from gpufeed.records.table_files import count_rows, read_parquet
from gpufeed.source.base import Source, open_image
from gpufeed.source.files import PathSource
from gpufeed.source.selection import take

__all__ = ["read_sizes", "with_sizes"]

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

    Sizes of files are cached in the user's cache folder, and reused for files of the same length
    and modification time; in an object store, of the same length and ETag. If there is a folder
    `.gpufeed` in the root, they are cached there instead, for everyone who shares the images.

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
    cached = _load(source.root, source.paths) if isinstance(source, PathSource) else {}
    read: CachedSizes = {}

    def read_size(key: int) -> None:
        try:
            if not isinstance(source, PathSource):
                with open_image(source, key) as file:
                    header = image_header(file)
            else:
                path = source.paths[key]
                if (known := cached.get(path)) is not None and known[:2] == source.stamp(key):
                    width, height, bits = known[2:]
                    header = ImageHeader(width, height, bits=bits)
                else:
                    opened, stamp = source.open_stamped(key)
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
    if read and isinstance(source, PathSource):
        _store(source.root, read)
    if len(failures) > (count - 1 if on_bad_image == "drop" else 0):
        raise bad_images_error(source, failures, count, "images", _ADVICE)
    return pl.DataFrame(sizes, schema={"width": pl.Int32, "height": pl.Int32}, orient="row")


def _cache_files(root: Path | str) -> list[Path]:
    """Return the files in which sizes may be cached, in order of preference."""
    files = []
    if isinstance(root, Path):
        shared = root / ".gpufeed" / "sizes.parquet"
        with contextlib.suppress(OSError):  # no permission to access the folder
            if shared.parent.is_dir() and not _is_link_or_special(shared):
                files.append(shared)
        root = os.fspath(root.resolve())
    with contextlib.suppress(ConfigError):  # a user without a home folder
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        files.append(cache_folder() / f"sizes-{name}.parquet")
    return files


def _is_link_or_special(file: Path) -> bool:
    """Return whether a shared cache is a link, which the data's author may have set, or no file."""
    linked = file.is_symlink() or file.parent.is_symlink()
    return linked or (file.exists() and not file.is_file())


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
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(file, buffer.getvalue())
            return
