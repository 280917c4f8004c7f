"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

__all__ = ["atomic_write"]


def atomic_write(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, which replaces an older one at once and whole; if that fails, nothing changes.

    A device or a pipe, as /dev/stdout, is written to as it is.

    Args:
        path: where to; symbolic links are followed.
        content: what it is to hold.

    Raises:
        OSError: it cannot be written; the error names `path`.
    """
    try:
        _write(Path(os.path.realpath(path)), content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _write(target: Path, content: bytes) -> None:
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with target.open("wb") as file:
            file.write(content)
        return
    # In the same folder, so that it can be renamed; by a short name, since long ones are refused.
    unfinished = target.with_name(f".{secrets.token_hex(8)}.unfinished")
    try:
        with unfinished.open("xb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # a disk over a network may tell only now that it is full
        unfinished.replace(target)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
