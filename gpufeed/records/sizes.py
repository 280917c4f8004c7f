"""Picture sizes read from the files' headers, in parallel, and kept for the next time."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar, get_args

import polars as pl

from gpufeed._util.atomic_write import atomic_write
from gpufeed._util.cache_folder import cache_folder
from gpufeed._util.limits import local_world_size
from gpufeed._util.progress import progress
from gpufeed._util.thread_map import thread_map
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.files import read_parquet
from gpufeed.records.headers import picture_size

__all__ = ["OnUnreadable", "check_on_error", "read_sizes", "with_sizes"]

_KEY = {"path": pl.String, "bytes": pl.Int64, "mtime_ns": pl.Int64}
_CACHE = {**_KEY, "width": pl.Int32, "height": pl.Int32}
_THREADS = 32  # of a machine: more than cores, since on network storage most of them wait
_NAMED = 3

OnUnreadable = Literal["raise", "drop"]
"""What becomes of a picture whose header can not be read, or that a link leads out of the root."""

_T = TypeVar("_T")
_R = TypeVar("_R")


def check_on_error(on_error: object) -> None:
    """Check what is to be done with a picture that can not be listed.

    Raises:
        ConfigError: it is neither "raise" nor "drop".
    """
    if on_error not in get_args(OnUnreadable):
        raise ConfigError(f'on_error is {on_error!r}; it must be "raise" or "drop"')


def read_sizes(
    root: Path, paths: pl.Series, *, show: bool | None = None, on_error: OnUnreadable = "raise"
) -> pl.DataFrame:
    """Width and height of each picture, its EXIF orientation applied.

    What was read is kept in the user's cache folder and used again for files of the same length
    and time of change. Who makes a folder `.gpufeed` beside the data has it kept there, for all
    who share them.

    Args:
        root: the folder that the paths are relative to.
        paths: String, (n,); may repeat.
        show: whether to show a progress bar; None on a terminal only.
        on_error: "drop" for null where a picture is missing or its header can not be read.

    Returns:
        The columns `width` and `height`, Int32, in pixels, n rows in the order of the paths.

    Raises:
        ManifestError: a picture is missing or its header can not be read; names the first few.
    """
    names = paths.unique(maintain_order=True).to_list()
    failures: dict[str, str] = {}

    def key_of(name: str) -> tuple[str, int, int] | None:
        try:
            found = (root / name).stat()
        except (OSError, ValueError) as error:
            failures[name] = _reason(error)
            return None
        return name, found.st_size, found.st_mtime_ns

    def size_of(key: tuple[str, int, int]) -> tuple[str, int, int, int, int] | None:
        try:
            return (*key, *picture_size(root / key[0]))
        except (OSError, ValueError) as error:
            failures[key[0]] = _reason(error)
            return None

    def of_all(
        work: Callable[[_T], _R | None], items: Sequence[_T], done: Callable[[int], None]
    ) -> list[_R]:
        threads = max(1, _THREADS // local_world_size())
        found = thread_map(work, items, threads=threads, done=done, name="gpufeed-sizes", chunk=64)
        return [each for each in found if each is not None]

    keys = pl.DataFrame(of_all(key_of, names, lambda _: None), schema=_KEY, orient="row")
    cached = _load(root)
    known = cached.join(keys, on=list(_KEY), how="semi")
    unread = keys.join(known, on=list(_KEY), how="anti").rows()
    with progress("Reading picture sizes", len(unread), show=show, unit="images") as done:
        read = pl.DataFrame(of_all(size_of, unread, done), schema=_CACHE, orient="row")
    if not read.is_empty():
        others = cached.join(read, on="path", how="anti")
        _store(root, pl.concat([others, read]))
    if failures and on_error != "drop":
        first = [f"{root / name}: {failures[name]}" for name in names if name in failures][:_NAMED]
        rest = f"; and {len(failures) - _NAMED} more" if len(failures) > _NAMED else ""
        raise ManifestError(
            f"{len(failures)} of {len(names)} pictures can not be read: {'; '.join(first)}{rest}; "
            'see what `gpufeed check` says of them, or leave them out with on_error="drop"'
        )
    # A dict and not a join, since polars promises no order of a join in all its versions.
    sizes = {row[0]: row[3:] for row in pl.concat([known, read]).iter_rows()}
    columns = {"width": pl.Int32, "height": pl.Int32}
    none = (None, None)
    rows = [sizes.get(name, none) for name in paths.to_list()]
    return pl.DataFrame(rows, schema=columns, orient="row")


def with_sizes(
    frame: pl.DataFrame, root: Path, *, show: bool | None, on_error: OnUnreadable
) -> tuple[pl.DataFrame, dict[str, int]]:
    """The frame with `width` and `height`, and how many pictures were left out as unreadable.

    Raises:
        ManifestError: a picture can not be read, or none can.
    """
    frame = frame.with_columns(read_sizes(root, frame["path"], show=show, on_error=on_error))
    readable = frame.filter(pl.col("width").is_not_null())
    if readable.is_empty():
        raise ManifestError(f"of {frame.height} pictures below {root} none can be read")
    dropped = frame.height - readable.height
    return readable, {"pictures_dropped": dropped} if dropped else {}


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _places(root: Path) -> list[tuple[Path, bool]]:
    """Where sizes may be kept, the best first, and whether nobody else writes there."""
    places = []
    beside = root / ".gpufeed" / "sizes.parquet"
    with contextlib.suppress(OSError):  # a folder that is not to be looked into
        if beside.parent.is_dir() and not _leads_elsewhere(beside):
            places.append((beside, False))
    with contextlib.suppress(ConfigError):  # a user without a home folder
        name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:32]
        places.append((cache_folder() / f"sizes-{name}.parquet", True))
    return places


def _leads_elsewhere(file: Path) -> bool:
    """Whether who made the data put a link there, to a file of the user's, or what would block."""
    linked = file.is_symlink() or file.parent.is_symlink()
    return linked or (file.exists() and not file.is_file())


def _load(root: Path) -> pl.DataFrame:
    """The sizes that were kept; one that is damaged or from elsewhere counts as none."""
    found = [pl.DataFrame(schema=_CACHE)]
    for place, own in _places(root):
        try:
            # One's own file needs no process of its own, which takes a fifth of a second.
            frame = pl.read_parquet(io.BytesIO(place.read_bytes())) if own else read_parquet(place)
        except (OSError, ManifestError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
            continue
        if frame.schema == _CACHE and not sum(frame.null_count().row(0)):
            sane = frame.filter((pl.col("width") > 0) & (pl.col("height") > 0))
            found.append(sane)
    return pl.concat(found).unique(subset=list(_KEY), keep="first")


def _store(root: Path, sizes: pl.DataFrame) -> None:
    """Keep the sizes for the next time, where that is possible; whole or not at all."""
    for place, _ in _places(root):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(place, _parquet(sizes))
        except OSError:
            continue
        return


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()
