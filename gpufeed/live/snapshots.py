"""Snapshots of running loaders: one small file each, in memory, for processes of the same user."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

__all__ = ["Snapshot", "path_of", "read_snapshots", "remove", "write"]

Snapshot = dict[str, Any]
"""See `Watch`."""

SHARED = Path("/dev/shm")  # noqa: S108 - in memory: a write never waits for a disk
_FORMAT = 1
"""Of the snapshots; those of other releases, if they are different, are in another folder."""
_STALE_SECONDS = 60
"""Age at which the file of a process that is gone is removed.

A process in a container that shares /dev/shm only looks gone, and writes a new file each second.
"""


def path_of(number: int) -> Path:
    """Return the file of a loader of this process, in a folder of this user, made if missing.

    Raises:
        OSError: there cannot be such a folder.
    """
    folder = _folder()
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    _check(folder)
    pid = os.getpid()
    return folder / f"{pid}-{_started(pid)}-{number}.json"


def write(path: Path, snapshot: Snapshot) -> None:
    """Replace a snapshot; a reader sees the old or the new one.

    Raises:
        OSError: it cannot be written.
    """
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(snapshot, file)
    new.replace(path)


def remove(path: Path) -> None:
    """Remove a snapshot."""
    for each in (path, path.with_suffix(".new")):
        with contextlib.suppress(OSError):
            each.unlink()


def read_snapshots() -> list[Snapshot]:
    """Return the snapshots of all loaders of this user on this machine.

    Files that killed processes left are passed over, and removed.
    """
    folder, found = _folder(), []
    try:
        _check(folder)
    except OSError:
        return []
    for path in sorted(folder.iterdir()):
        with contextlib.suppress(OSError, ValueError):  # just removed, or of something else
            pid, started, _ = map(int, path.stem.split("-"))
            if _started(pid) == started:
                if path.suffix == ".json":
                    found.append(json.loads(path.read_text()))
            elif time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink()
    return found


def _folder() -> Path:
    return SHARED / f"gpufeed-live-{os.geteuid()}-{_FORMAT}"


def _check(folder: Path) -> None:
    """Raise `OSError` if others made the folder or may write to it."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} is not this user's own folder")


def _started(pid: int) -> int | None:
    """Return when a process started, in ticks since the machine did; None if there is none."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(status.rpartition(")")[2].split()[19])  # after the name, which may have spaces
