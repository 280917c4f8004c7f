"""Encoded pictures as files below one folder."""

from __future__ import annotations

import os
import stat
import time
from concurrent.futures import Executor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from gpufeed.records import Manifest

__all__ = ["FileStore", "read_file"]

_SLOW = 0.5e-3
"""Seconds that two files in a row may take each before the others are read side by side.

Files that the system has in memory take a tenth of that, and four times as long when threads that
share an interpreter take turns at them; a disk or network that is waited for gains from many. One
slow file alone is mostly a thread that had to wait for its core.
"""


class FileStore:
    """The files of a manifest.

    Args:
        manifest: its `root` and `path` say where each record's file is.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._root = os.fspath(manifest.root)
        self._paths = manifest.frame["path"]

    def path(self, record_key: int) -> str:
        """Return where a record's file is."""
        return os.path.join(self._root, self._paths[record_key])  # noqa: PTH118 - a hot path

    def read(self, record_keys: npt.NDArray[np.int64], executor: Executor) -> list[bytes | OSError]:
        """Read the files of some records, on the threads of `executor` too where that is faster.

        Returns:
            For each record its file's content, or the error that reading it met. Nothing is raised,
            so that one bad file does not cost the others of its batch.
        """
        names = self._paths.gather(record_keys).to_list()
        paths = [f"{self._root}/{name}" for name in names]
        contents: list[bytes | OSError] = []
        slow_in_a_row = 0
        while len(contents) < len(paths) and slow_in_a_row < 2:
            began = time.perf_counter()
            contents.append(_attempt(paths[len(contents)]))
            slow = time.perf_counter() - began > _SLOW
            slow_in_a_row = slow_in_a_row + 1 if slow else 0
        contents += executor.map(_attempt, paths[len(contents) :])
        return contents


def _attempt(path: str) -> bytes | OSError:
    try:
        return read_file(path)
    except OSError as error:
        return error


def read_file(path: str) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: it can not be read, is empty, or is no regular file (a pipe would block for ever).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("not a regular file")
        content = os.read(descriptor, found.st_size)
        while len(content) < found.st_size:
            more = os.read(descriptor, found.st_size - len(content))
            if not more:
                break
            content += more
    finally:
        os.close(descriptor)
    if not content:
        raise OSError("the file is empty")
    return content
