"""Writes files atomically."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

__all__ = ["UNFINISHED", "atomic_write"]

UNFINISHED = f".{'[0-9a-f]' * 16}.unfinished"
"""Pattern of the names of files that a killed process leaves."""

Content = bytes | Callable[[BinaryIO], object]


def atomic_write(
    path: str | os.PathLike[str], content: Content, *, follow_links: bool = True
) -> None:
    """Write a file, replacing an existing one atomically; if that fails, nothing changes.

    A device or pipe, such as /dev/stdout, is written to directly.

    Args:
        path: destination.
        content: the file's new content, or a function that writes it.
        follow_links: whether the file may be a symbolic link, device or pipe. Otherwise that is an
            error; the folder may still be a link.

    Raises:
        OSError: the file cannot be written; the error names `path`.
    """
    try:
        target = Path(os.path.realpath(path) if follow_links else path)
        _write(target, content, follow_links=follow_links)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _write(target: Path, content: Content, *, follow_links: bool) -> None:
    write = (lambda file: file.write(content)) if isinstance(content, bytes) else content
    try:
        mode = target.stat(follow_symlinks=follow_links).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        if not follow_links:
            raise FileExistsError(errno.EEXIST, "it is a link, or no file")
        with target.open("wb") as file:
            write(file)
        return
    # In the same folder, so that it can be renamed. The name is short, since the target's name plus
    # a suffix could exceed the file system's limit.
    temporary = target.with_name(f".{secrets.token_hex(8)}.unfinished")
    try:
        with temporary.open("xb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            write(file)
            file.flush()
            os.fsync(file.fileno())  # a network file system may report a full disk only here
        temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
