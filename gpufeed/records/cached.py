"""Files in which facts about a dataset are cached: beside it, or in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from pathlib import Path

import polars as pl

from gpufeed._util.atomic_write import atomic_write
from gpufeed._util.cache_folder import cache_folder
from gpufeed.errors import ConfigError

__all__ = ["cache_files", "short_hash", "write_cache"]


def cache_files(folder: Path | None, shared: str, own: str) -> list[Path]:
    """Return the Parquet files that may be a cache, in order of preference.

    Args:
        folder: of the data; a cache in its `.gpufeed`, if there is one, serves all who share them.
        shared: name of the cache there, without its ending.
        own: name of the cache in the user's cache folder, without its ending.
    """
    files = []
    if folder is not None:
        file = folder / ".gpufeed" / f"{shared}.parquet"
        with contextlib.suppress(OSError):  # no permission to access the folder
            if file.parent.is_dir() and not _is_link_or_special(file):
                files.append(file)
    with contextlib.suppress(ConfigError):  # a user without a home folder
        files.append(cache_folder() / f"{own}.parquet")
    return files


def short_hash(*parts: str) -> str:
    """Return a hash of texts for a file's name, as 32 hex digits."""
    return hashlib.sha256(os.fsencode("\0".join(parts))).hexdigest()[:32]


def write_cache(file: Path, frame: pl.DataFrame) -> bool:
    """Write a cache atomically; return whether that was possible."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, buffer.getvalue())
    except OSError:
        return False
    return True


def _is_link_or_special(file: Path) -> bool:
    """Return whether a shared cache is a link, which the data's author may have set, or no file."""
    linked = file.is_symlink() or file.parent.is_symlink()
    return linked or (file.exists() and not file.is_file())
