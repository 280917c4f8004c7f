"""The page cache: which pages of files are in it, and dropping them."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

__all__ = ["cached_share", "drop"]


def drop(files: Sequence[str]) -> None:
    """Drop files from the page cache; pages that a process has mapped stay."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            # What is not on the disk yet cannot be dropped.
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def cached_share(files: Sequence[str]) -> float:
    """Which part of some files' pages is in the page cache, 0 to 1."""
    pages = cached = 0
    for file in files:
        found = _cached(Path(file))
        pages += len(found)
        cached += sum(byte & 1 for byte in found)
    return cached / pages if pages else 0.0


def _cached(file: Path) -> bytes:
    """One byte for each page of a file; its lowest bit is 1 where the page is in the cache."""
    size = file.stat().st_size
    if not size:
        return b""
    libc = ctypes.CDLL(None, use_errno=True)
    found = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    # A private mapping can be written to, which is how ctypes gets at its address.
    with (
        file.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY) as mapped,
    ):
        start = ctypes.c_char.from_buffer(mapped)
        failed = libc.mincore(ctypes.byref(start), ctypes.c_size_t(size), found)
        del start
    if failed:
        raise OSError(ctypes.get_errno(), "mincore failed", str(file))
    return bytes(found)
