"""Encoded pictures as files below one folder."""

from __future__ import annotations

import os
import time
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from gpufeed.errors import DecodeError
from gpufeed.regular import read_file

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from gpufeed.records import Manifest

__all__ = ["FileStore", "most_bytes"]

_SLOW = 0.5e-3
"""Seconds that two files in a row may take each before the others are read side by side.

Files that the system has in memory take a tenth of that, and four times as long when threads that
share an interpreter take turns at them; a disk or network that is waited for gains from many. One
slow file alone is mostly a thread that had to wait for its core.
"""

_PIXEL_BYTES = 16
"""Bytes of a pixel in the most wasteful of formats, four channels of 32 bits each."""
_SPARE_BYTES = 1 << 26
"""What a file may have beside its pixels: previews, profiles, texts."""


class FileStore:
    """The files of a manifest.

    Args:
        manifest: its `root` and `path` say where each record's file is.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._root = os.fspath(manifest.root)
        self._paths = manifest.frame["path"]

    def name(self, record_key: int) -> str:
        """Return where a record's file is below the root."""
        name: str = self._paths[record_key]
        return name

    def path(self, record_key: int) -> str:
        """Return where a record's file is."""
        return os.path.join(self._root, self._paths[record_key])  # noqa: PTH118 - a hot path

    def read(
        self,
        record_keys: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        executor: Executor,
    ) -> list[bytes | DecodeError]:
        """Read the files of some records, on the threads of `executor` too where that is faster.

        Args:
            record_keys: int64 (n,).
            sizes: int64 (n, 2), height and width of their pictures.
            executor: what may be done on other threads.

        Returns:
            For each record its file's content, or why there is none. Nothing is raised, so that one
            bad file does not cost the others of its batch.
        """
        names = self._paths.gather(record_keys).to_list()
        most = [most_bytes(pixels) for pixels in sizes.prod(axis=1).tolist()]
        wanted = list(zip(record_keys.tolist(), names, most, strict=True))
        contents: list[bytes | DecodeError] = []
        slow_in_a_row = 0
        while len(contents) < len(wanted) and slow_in_a_row < 2:
            began = time.perf_counter()
            contents.append(self._attempt(wanted[len(contents)]))
            slow = time.perf_counter() - began > _SLOW
            slow_in_a_row = slow_in_a_row + 1 if slow else 0
        contents += executor.map(self._attempt, wanted[len(contents) :])
        return contents

    def _attempt(self, wanted: tuple[int, str, int]) -> bytes | DecodeError:
        record_key, name, most = wanted
        path = f"{self._root}/{name}"
        try:
            return read_file(path, most)
        except OSError as error:
            reason = f"can not be read: {error.strerror or error}"
            return DecodeError(record_key, path, reason)


def most_bytes(pixels: int) -> int:
    """Return how long the file of a picture of so many pixels may be."""
    return pixels * _PIXEL_BYTES + _SPARE_BYTES
