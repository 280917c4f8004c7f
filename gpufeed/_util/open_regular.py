"""Opens regular files and nothing else: a pipe would block, a device may never end."""

from __future__ import annotations

import os
import stat
from io import BufferedReader

__all__ = ["EmptyFileError", "FileTooLongError", "open_regular", "read_file"]

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class EmptyFileError(OSError):
    """A file has no bytes."""


class FileTooLongError(OSError):
    """A file has more bytes than it may have."""


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Return a regular file, opened to be read.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    descriptor, _ = _opened(path)
    return os.fdopen(descriptor, "rb")


def read_file(path: str | os.PathLike[str], most: int = 1 << 40) -> bytes:
    """Return the content of a regular file.

    Args:
        path: where it is.
        most: how many bytes it may have.

    Raises:
        EmptyFileError: it has no bytes.
        FileTooLongError: it has more than `most`.
        OSError: it cannot be read, or is no regular file.
    """
    descriptor, size = _opened(path)
    try:
        if size > most:
            raise FileTooLongError(f"it has {size:,} bytes, of which {most:,} may be")
        content = os.read(descriptor, size)
        while len(content) < size:
            more = os.read(descriptor, size - len(content))
            if not more:
                break
            content += more
    finally:
        os.close(descriptor)
    if not content:
        raise EmptyFileError("the file is empty")
    return content


def _opened(path: str | os.PathLike[str]) -> tuple[int, int]:
    """The descriptor, and how many bytes there are."""
    # A device may do something when it is opened: rewind a tape, raise a line.
    _check_regular(os.stat(path).st_mode)  # noqa: PTH116 - of many files, and any path
    # It may be another one by now: a pipe would have us wait for whoever writes to it, a terminal
    # would become that of this process.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        found = os.fstat(descriptor)
        _check_regular(found.st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, found.st_size


def _check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(f"not a regular file but {kind}")
