"""Opens regular files only: a pipe could block, and a device could be endless."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from io import BufferedReader

__all__ = [
    "EmptyFileError",
    "FileTooLongError",
    "open_descriptor",
    "open_regular",
    "read_file",
    "read_file_into",
]

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class EmptyFileError(OSError):
    """A file is empty."""


class FileTooLongError(OSError):
    """A file is longer than allowed."""


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    descriptor, _ = open_descriptor(path)
    return os.fdopen(descriptor, "rb")


def read_file(path: str | os.PathLike[str], max_bytes: int = 1 << 40) -> bytes:
    """Return the content of a regular file: see `read_file_into` for the errors raised."""
    return bytes(read_file_into(lambda _: None, path, max_bytes))


def read_file_into(
    allocate: Callable[[int], memoryview | None],
    path: str | os.PathLike[str],
    max_bytes: int,
) -> bytes | memoryview:
    """Return the content of a regular file, in memory of the caller's.

    Args:
        allocate: from a length to the memory to read into, or None for new memory.
        path: the file.
        max_bytes: longest file that is read.

    Raises:
        EmptyFileError: the file is empty.
        FileTooLongError: the file is longer than `max_bytes`.
        OSError: it cannot be read, or is not a regular file.
    """
    descriptor, size = open_descriptor(path)
    try:
        if size > max_bytes:
            raise FileTooLongError(f"the file has {size:,} bytes; the limit is {max_bytes:,}")
        room = allocate(size)
        if room is None:
            content: bytes | memoryview = os.read(descriptor, size)
        else:
            content = room[: os.readv(descriptor, [room])].toreadonly()
        while len(content) < size:
            chunk = os.read(descriptor, size - len(content))
            if not chunk:
                break
            content = b"".join((content, chunk))
    finally:
        os.close(descriptor)
    if not content:
        raise EmptyFileError("the file is empty")
    return content


def open_descriptor(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return an open file descriptor and the file's length in bytes."""
    # Checked before it is opened, since opening a device may have side effects.
    _check_regular(os.stat(path).st_mode)  # noqa: PTH116 - a hot path
    # Another file may have replaced it by now. The flags keep a pipe from blocking, and a terminal
    # from becoming this process's controlling terminal.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = os.fstat(descriptor)
        _check_regular(status.st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, status.st_size


def _check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(f"not a regular file but {kind}")
