"""Reads image sizes from headers, in parallel, and caches them."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from gpufeed._util.limits import local_world_size
from gpufeed._util.progress import progress
from gpufeed._util.thread_map import thread_map
from gpufeed.decode.headers import ImageHeader, check_depth, image_header
from gpufeed.records.bad_images import OnBadImage, bad_images_error
from gpufeed.records.cached import CachedTable
from gpufeed.source.base import Source, open_image
from gpufeed.source.selection import take
from gpufeed.source.stored import StoredSource

__all__ = ["read_sizes", "with_sizes"]

_Sizes = dict[str, tuple[int, int, int, int, int]]
"""Maps a place to the two numbers of `StoredSource.stamp`, and the width, height and bits per
channel of the image."""

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
    cached = None
    if isinstance(source, StoredSource) and (placed := source.places()) is not None:
        cached = _Cached(source, *placed)

    def read_size(key: int) -> None:
        try:
            header = _read_header(source, key) if cached is None else cached.header(key)
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
    if cached is not None:
        cached.store()
    if len(failures) > (count - 1 if on_bad_image == "drop" else 0):
        raise bad_images_error(source, failures, count, "images", _ADVICE)
    return pl.DataFrame(sizes, schema={"width": pl.Int32, "height": pl.Int32}, orient="row")


def _read_header(source: Source, key: int) -> ImageHeader:
    with open_image(source, key) as opened:
        return image_header(opened)


class _Cached:
    """Headers of images, of which the sizes are cached.

    Args:
        source: the images.
        folder: their folder, or its URL.
        places: String (n,), the place of each in it.
    """

    def __init__(self, source: StoredSource, folder: Path | str, places: pl.Series) -> None:
        self._source = source
        self._places = places
        self._table = CachedTable("sizes", folder)
        self._read: _Sizes = {}
        self._known: _Sizes = {}
        # A table beside the images may have come with them: it may be endless, and have any sizes.
        tables = [*self._table.read(_SCHEMA, max(_MAX_CACHED, 16 * len(places)))]
        for table in reversed(tables):  # the preferred one overrides the others
            positive = pl.all_horizontal(pl.col("width", "height", "bits") > 0)
            wanted = table.drop_nulls().filter(positive, pl.col("path").is_in(places.to_list()))
            self._known |= {row[0]: row[1:] for row in wanted.iter_rows()}

    def header(self, key: int) -> ImageHeader:
        """Return the header of an image, or what is cached of it.

        Raises:
            OSError: it cannot be read.
            ValueError: it is not an image.
        """
        place = self._places[key]
        known = self._known.get(place)
        if known is not None and known[:2] == self._source.stamp(key):
            return ImageHeader(*known[2:4], bits=known[4])
        opened, stamp = self._source.open_stamped(key)
        with opened:
            header = image_header(opened)
        if stamp is not None:
            self._read[place] = *stamp, *header[:2], header.bits
        return header

    def store(self) -> None:
        """Add the sizes that were read to the cache."""
        if self._read:
            rows = [(place, *values) for place, values in self._read.items()]
            added = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
            self._table.write(added, beside="path", most=_MAX_STORED)
