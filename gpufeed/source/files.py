"""Encoded images as files below one folder."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.open_regular import open_regular, read_file
from gpufeed._util.rows import Where
from gpufeed.source.paths import check_names

__all__ = ["FileSource"]

MAX_BYTES = 1 << 31


class FileSource:
    """Files below one folder.

    Args:
        root: the folder; it may be a symbolic link.
        paths: the file of each key, relative to the root, with `/` between its parts.
        max_bytes: longer files are refused before they are read.
        where: names a row in error messages.

    Raises:
        ManifestError: a path is empty, absolute, leaves the root by `..`, names a folder, or holds
            a backslash or a NUL; the message names it.

    Attributes:
        root: the folder, absolute, so that it means the same after chdir and in another process.
        paths: String, (n,).
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        paths: pl.Series,
        *,
        max_bytes: int = MAX_BYTES,
        where: Where = "row {}".format,
    ) -> None:
        check_names(paths, where)
        self.root = Path(root).absolute()
        self.paths = paths
        self._folder = os.fspath(self.root)
        self._limits = np.full(len(paths), max_bytes, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        return f"FileSource({self._folder!r}, {len(self)} files)"

    def read(self, keys: npt.NDArray[np.int64]) -> list[bytes | OSError]:
        """Read files: see `Source`."""
        limits = self._limits[keys].tolist()
        return [self._read(key, limit) for key, limit in zip(keys.tolist(), limits, strict=True)]

    def _read(self, key: int, limit: int) -> bytes | OSError:
        try:
            return read_file(self.name(key), limit)
        except OSError as error:
            # Without its traceback, whose frames would keep the whole batch alive.
            return error.with_traceback(None)

    def name(self, key: int) -> str:
        """Return a file's whole path: see `Source`."""
        return f"{self._folder}/{self.paths[key]}"

    def open(self, key: int) -> BinaryIO:
        """Open a file: see `Source`."""
        return open_regular(self.name(key))

    def take(self, keys: npt.NDArray[np.int64]) -> Self:
        """Return a source of some of the files, in the order of `keys`, repeats included."""
        part = copy.copy(self)
        part.paths = self.paths.gather(keys)
        part._limits = self._limits[keys]
        return part

    def limited(self, max_bytes: npt.NDArray[np.int64]) -> Self:
        """Return a source of the same files with a limit for each, int64 (n,), if it is lower."""
        part = copy.copy(self)
        part._limits = np.minimum(self._limits, max_bytes)
        return part

    def stamp(self, key: int) -> tuple[int, int]:
        """Return a file's length in bytes and its time of change in nanoseconds.

        Raises:
            OSError: there is no such file.
        """
        found = os.stat(self.name(key))  # noqa: PTH116 - a hot path
        return found.st_size, found.st_mtime_ns
