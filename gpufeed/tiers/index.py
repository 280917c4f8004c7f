"""The index of a folder of kept images: which are there, and what each takes."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpufeed._util.held_folder import HeldFolder

__all__ = ["Index", "IndexDamagedError", "held_blocks"]

_HEADER = struct.Struct("=8s36sqqqq")
_MAGIC = b"gpufeed1"
_CHANGE = struct.Struct("=qq")
_RING = 1024
"""The last changes that the index lists. Who missed more reads all of it."""
_RING_AT = 128
_TABLE_AT = _RING_AT + _RING * _CHANGE.size


class IndexDamagedError(Exception):
    """The index is not that of its folder: it is new, or a writer was killed."""


class Index:
    """A file with what each image takes, for processes that change it in turns, under a lock.

    It says itself whether a process was killed while it changed the folder, or the machine was,
    and lists the last changes, so that other processes need not read all of it.

    Args:
        file: a descriptor of the file, which may be empty; `close` closes it.
        count: number of images.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, file: int, count: int) -> None:
        self._count = count
        self._seen = -1
        self._changes = 0
        self._boot = _boot()
        size = self.length(count)
        self._file = file
        try:
            if os.fstat(self._file).st_size != size:
                os.ftruncate(self._file, 0)
                os.posix_fallocate(self._file, 0, size)
            # Blocks of 512 bytes that the file itself takes.
            self.blocks = os.fstat(self._file).st_blocks
        except BaseException:
            os.close(self._file)
            raise

    @staticmethod
    def length(count: int) -> int:
        """Return the number of bytes of the index of so many images."""
        return _TABLE_AT + 4 * count

    def gone(self) -> bool:
        """Return whether the file has been removed."""
        return os.fstat(self._file).st_nlink == 0

    def news(self) -> npt.NDArray[np.int64] | npt.NDArray[np.uint32]:
        """Return what has changed since the last call.

        Returns:
            int64 (n, 2), keys and what they take now; or uint32 (count,), what all images take.

        Raises:
            IndexDamagedError: call `rewrite` with what is there.
        """
        header = os.pread(self._file, _HEADER.size, 0)
        if len(header) < _HEADER.size:
            raise IndexDamagedError
        magic, boot, count, _, self._changes, changing = _HEADER.unpack(header)
        if (magic, boot, count, changing) != (_MAGIC, self._boot, self._count, 0):
            raise IndexDamagedError
        seen, self._seen = self._seen, self._changes
        if seen == self._changes:
            return np.empty((0, 2), np.int64)
        if not 0 < self._changes - seen <= _RING or seen < 0:
            return np.frombuffer(_read(self._file, 4 * self._count, _TABLE_AT), np.uint32).copy()
        ring = np.frombuffer(_read(self._file, _RING * _CHANGE.size, _RING_AT), np.int64)
        changes = ring.reshape(_RING, 2)[np.arange(seen, self._changes) % _RING]
        if ((changes < 0) | (changes >= (self._count, 1 << 32))).any():
            raise IndexDamagedError
        return changes

    def rewrite(self, sizes: npt.NDArray[np.uint32]) -> None:
        """Replace all: uint32 (count,), what each image takes."""
        os.pwrite(self._file, bytes(_RING_AT), 0)
        view, place = memoryview(sizes.tobytes()), _TABLE_AT
        while view:
            written = os.pwrite(self._file, view, place)
            view, place = view[written:], place + written
        # No number that another process has seen.
        self._seen = self._changes = time.time_ns() // 1000
        self._write_header(int(sizes.sum(dtype=np.int64)), changing=False)

    def begin(self, total: int) -> None:
        """Note that the folder is about to change, and will take at most `total` meanwhile."""
        self._write_header(total, changing=True)

    def end(self, changes: list[tuple[int, int]], total: int) -> None:
        """Note what has changed: keys, and what each takes now; and the sum."""
        for key, size in changes:
            os.pwrite(self._file, size.to_bytes(4, "little"), _TABLE_AT + 4 * key)
            at = _RING_AT + self._changes % _RING * _CHANGE.size
            os.pwrite(self._file, _CHANGE.pack(key, size), at)
            self._changes += 1
        self._seen = self._changes
        self._write_header(total, changing=False)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _write_header(self, total: int, *, changing: bool) -> None:
        header = _HEADER.pack(_MAGIC, self._boot, self._count, total, self._changes, changing)
        os.pwrite(self._file, header, 0)


def held_blocks(folder: HeldFolder, path: str) -> int:
    """Return how many blocks of 512 bytes the images of an index and itself take; 0 if not known.

    Read without a lock, this is never too little for what is written under one.
    """
    try:
        file = folder.open(path, os.O_RDONLY)
        try:
            header = os.pread(file, _HEADER.size, 0)
            blocks = os.fstat(file).st_blocks
        finally:
            os.close(file)
    except OSError:  # also if it is a pipe
        return 0
    if len(header) < _HEADER.size or not header.startswith(_MAGIC):
        return blocks
    return blocks + int(_HEADER.unpack(header)[3])


def _read(file: int, size: int, place: int) -> bytes:
    parts = []
    while size and (part := os.pread(file, size, place)):
        parts.append(part)
        size, place = size - len(part), place + len(part)
    if size:
        raise IndexDamagedError
    return b"".join(parts)


def _boot() -> bytes:
    """Return what tells this start of the machine from others: what it wrote last may be lost."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()[:36].ljust(36)
    except OSError:
        return bytes(36)
