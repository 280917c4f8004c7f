"""Image sizes read from headers, in parallel, and kept for the next time."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from pathlib import Path
from typing import Literal, TypeVar, get_args

import polars as pl

from gpufeed._util.atomic_write import atomic_write
from gpufeed._util.cache_folder import cache_folder
from gpufeed._util.limits import local_world_size
from gpufeed._util.progress import progress
from gpufeed._util.rows import RowName
from gpufeed._util.thread_map import thread_map
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.files import read_parquet
from gpufeed.records.headers import image_size
from gpufeed.source.base import Source, open_image
from gpufeed.source.files import FileSource
from gpufeed.source.paths import all_escape_message, escape_message, find_escapes
from gpufeed.source.selection import take

__all__ = ["OnBadImage", "check_on_bad_image", "drop_links", "read_sizes", "with_sizes"]

S = TypeVar("S", bound=Source)
Kept = dict[str, tuple[int, int, int, int]]
"""From a path to its file's length and time of change, and its image's width and height."""

_CACHE = {
    "path": pl.String,
    "bytes": pl.Int64,
    "mtime_ns": pl.Int64,
    "width": pl.Int32,
    "height": pl.Int32,
}
_THREADS = 32  # of a machine: more than cores, since on network storage most of them wait
_NAMED = 3

OnBadImage = Literal["raise", "drop"]
"""What becomes of an image whose header cannot be read, or that a link leads out of the root."""


def check_on_bad_image(on_bad_image: object) -> None:
    """Check what is to be done with an image that cannot be listed.

    Raises:
        ConfigError: it is neither "raise" nor "drop".
    """
    if on_bad_image not in get_args(OnBadImage):
        raise ConfigError(f'on_bad_image is {on_bad_image!r}; it must be "raise" or "drop"')


def drop_links(
    frame: pl.DataFrame, source: FileSource, at: RowName, on_bad_image: OnBadImage
) -> tuple[pl.DataFrame, FileSource, dict[str, int]]:
    """Return frame and source without rows that a symbolic link takes out of the root.

    Returns:
        The frame, its source, and how many rows were dropped, for `repairs`.

    Raises:
        ManifestError: there are such rows, and they are not to be dropped or are all there is.
    """
    out = find_escapes(source.root, source.paths)
    if not out.any():
        return frame, source, {}
    if on_bad_image != "drop":
        raise ManifestError(escape_message(source.root, source.paths, out, at))
    if out.all():
        raise ManifestError(all_escape_message(source.root))
    kept = source.take((~out).arg_true().to_numpy())
    return frame.filter(~out), kept, {"links_dropped": int(out.sum())}


def with_sizes(
    frame: pl.DataFrame, source: Source, *, show: bool | None, on_bad_image: OnBadImage
) -> tuple[pl.DataFrame, Source, dict[str, int]]:
    """Return the frame with `width` and `height`, as `read_sizes` has them.

    Returns:
        The frame, its source, and how many images were dropped as unreadable, for `repairs`.

    Raises:
        ManifestError: an image cannot be read and is not to be dropped, or none can be read.
    """
    frame = frame.with_columns(
        read_sizes(source, frame.height, show=show, on_bad_image=on_bad_image)
    )
    readable = frame["width"].is_not_null()
    if readable.all():
        return frame, source, {}
    if not readable.any():
        raise ManifestError(f"none of the {frame.height} images in {source!r} can be read")
    kept = take(source, readable.arg_true().to_numpy())
    return frame.filter(readable), kept, {"images_dropped": int((~readable).sum())}


def read_sizes(
    source: Source, count: int, *, show: bool | None = None, on_bad_image: OnBadImage = "raise"
) -> pl.DataFrame:
    """Return width and height of each image, its EXIF orientation applied.

    Sizes of files are kept in the user's cache folder, and used again for files of the same length
    and time of change. If there is a folder `.gpufeed` beside the images they are kept in it, for
    all who share the images.

    Args:
        source: the images.
        count: how many there are.
        show: whether to show a progress bar; None on a terminal only.
        on_bad_image: "drop" for null where an image or its header cannot be read.

    Returns:
        The columns `width` and `height`, Int32, in pixels, a row for each key.

    Raises:
        ManifestError: an image or its header cannot be read; names the first few.
    """
    sizes: list[tuple[int | None, int | None]] = [(None, None)] * count
    failures: dict[int, str] = {}
    kept = _load(source.root) if isinstance(source, FileSource) else {}
    read: Kept = {}

    def read_size(key: int) -> None:
        try:
            if isinstance(source, FileSource):
                path, stamp = source.paths[key], source.stamp(key)
                if (known := kept.get(path)) is not None and known[:2] == stamp:
                    sizes[key] = known[2:]
                    return
            with open_image(source, key) as file:
                sizes[key] = width, height = image_size(file)
            if isinstance(source, FileSource):
                read[path] = (*stamp, width, height)
        except (OSError, ValueError) as error:
            failures[key] = (error.strerror if isinstance(error, OSError) else "") or str(error)

    with progress("Reading image sizes", count, show=show, unit="images") as done:
        threads = max(1, _THREADS // local_world_size())
        thread_map(
            read_size, range(count), threads=threads, done=done, name="gpufeed-sizes", chunk=64
        )
    if read and isinstance(source, FileSource):
        _store(source.root, kept | read)
    if failures and on_bad_image != "drop":
        first = [f"{source.name(key)}: {failures[key]}" for key in sorted(failures)[:_NAMED]]
        rest = f"; and {len(failures) - _NAMED} more" if len(failures) > _NAMED else ""
        raise ManifestError(
            f"{len(failures)} of {count} images cannot be read: {'; '.join(first)}{rest}; "
            'see what `gpufeed check` says of them, or leave them out with on_bad_image="drop"'
        )
    return pl.DataFrame(sizes, schema={"width": pl.Int32, "height": pl.Int32}, orient="row")


def _places(root: Path) -> list[Path]:
    """Where sizes may be kept, the best first."""
    places = []
    beside = root / ".gpufeed" / "sizes.parquet"
    with contextlib.suppress(OSError):  # a folder that is not to be looked into
        if beside.parent.is_dir() and not _leads_elsewhere(beside):
            places.append(beside)
    with contextlib.suppress(ConfigError):  # a user without a home folder
        name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:32]
        places.append(cache_folder() / f"sizes-{name}.parquet")
    return places


def _leads_elsewhere(file: Path) -> bool:
    """Whether the file is a link that whoever made the data put there, or is no file."""
    linked = file.is_symlink() or file.parent.is_symlink()
    return linked or (file.exists() and not file.is_file())


def _load(root: Path) -> Kept:
    """Return the sizes that were kept; a file that is damaged or of another form counts as none."""
    kept: Kept = {}
    for place in reversed(_places(root)):  # so that the best has the last word
        with contextlib.suppress(ManifestError):
            frame = read_parquet(place)
            if frame.schema == _CACHE:
                kept |= {row[0]: row[1:] for row in frame.iter_rows()}
    return kept


def _store(root: Path, sizes: Kept) -> None:
    """Keep the sizes for the next time, where that is possible."""
    rows = [(path, *values) for path, values in sizes.items()]
    buffer = io.BytesIO()
    pl.DataFrame(rows, schema=_CACHE, orient="row").write_parquet(buffer)
    for place in _places(root):
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(place, buffer.getvalue())
            return
