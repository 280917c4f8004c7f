"""Encoded images in files below one folder."""

from __future__ import annotations

import copy
import hashlib
import os
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.memory import Slices
from gpufeed._util.open_regular import open_regular, read_file, read_file_into
from gpufeed._util.rows import RowName, pieces
from gpufeed._util.thread_map import thread_map
from gpufeed.source.base import Saved
from gpufeed.source.paths import check_inside, check_names
from gpufeed.source.stored import MAX_BYTES, StoredSource

__all__ = ["FileSource", "PathSource"]

_THREADS = 16
"""Threads that look at files, of which storage over a network makes each wait."""


class PathSource(StoredSource):
    """Images that are named by their paths below one root.

    Args:
        paths: the file of each key, relative to the root, with `/` as the separator.
        where: function that names a row in error messages.

    Raises:
        ManifestError: a path is empty or absolute, leaves the root through `..`, names a folder,
            or contains a backslash or NUL; the message names it.

    Attributes:
        root: the root: a folder as an absolute path, or a URL.
        paths: String, (n,).
    """

    root: Path | str

    def __init__(self, paths: pl.Series, *, where: RowName = "row {}".format) -> None:
        check_names(paths, where)
        super().__init__(len(paths))
        self.paths = paths

    def to_saved(self) -> Saved:
        """Return what finds the files again, but for the options of their storage."""
        return Saved({"root": os.fspath(self.root)}, self.paths.to_frame("path"))

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, keys: npt.NDArray[np.int64]) -> Self:
        """Return a source of the files of `keys`, in their order, repeats included."""
        taken = super().take(keys)
        taken.paths = self.paths.gather(keys)
        return taken

    def places(self) -> tuple[Path | str, pl.Series]:
        """Return the root, and the paths: see `StoredSource`."""
        return self.root, self.paths


class FileSource(PathSource):
    """Files below one folder.

    Args:
        root: the folder; it may be a symbolic link.
        paths: the file of each key, relative to the root, with `/` as the separator.
        max_bytes: longer files are rejected without being read.
        where: function that names a row in error messages.

    Raises:
        ManifestError: as `PathSource`.

    Attributes:
        root: the folder as an absolute path, independent of the working directory.
        paths: String, (n,).
    """

    root: Path

    def __init__(
        self,
        root: str | os.PathLike[str],
        paths: pl.Series,
        *,
        max_bytes: int = MAX_BYTES,
        where: RowName = "row {}".format,
    ) -> None:
        super().__init__(paths, where=where)
        self._max_bytes = max_bytes
        self.root = Path(root).absolute()
        self._folder = os.fspath(self.root).rstrip("/")  # empty for "/"
        self._slices: Slices | None = None
        self._real_root: str | None = None

    @classmethod
    def of_checked(cls, root: str | os.PathLike[str], paths: pl.Series) -> Self:
        """Return a source of files whose paths have been checked before."""
        source = cls(root, paths.clear())
        StoredSource.__init__(source, len(paths))
        source.paths = paths
        return source

    def __repr__(self) -> str:
        return f"FileSource({str(self.root)!r}, {len(self)} files)"

    def read(self, keys: npt.NDArray[np.int64]) -> list[bytes | memoryview | OSError]:
        """Read files: see `Source`."""
        limits = self.most_bytes(keys)
        return [self._read(key, limit) for key, limit in zip(keys.tolist(), limits, strict=True)]

    def _read(self, key: int, limit: int) -> bytes | memoryview | OSError:
        try:
            path = self._checked(key)
            if self._slices is None:
                return read_file(path, limit)
            return read_file_into(self._slices.take, path, limit)
        except OSError as error:
            # The frames of its traceback would keep the whole batch alive.
            return error.with_traceback(None)

    def name(self, key: int) -> str:
        """Return a file's full path: see `Source`."""
        return f"{self._folder}/{self.paths[key]}"

    def open(self, key: int) -> BinaryIO:
        """Open a file: see `Source`."""
        return open_regular(self._checked(key))

    def within_root(self) -> Self:
        """Return a source of the same files, of which those that leave the root are not read."""
        within = copy.copy(self)
        within._real_root = os.path.realpath(self.root)
        return within

    def _checked(self, key: int) -> str:
        """Return a file's full path; raise `OSError` if it is not read."""
        path = self.name(key)
        if self._real_root is not None:
            check_inside(path, self._real_root)
        return path

    def reusing_memory(self, slices: Slices) -> Self:
        """Return a source of the same files that reads short ones into slices of memory."""
        reusing = copy.copy(self)
        reusing._slices = slices
        return reusing

    def stamp(self, key: int) -> tuple[int, int]:
        """Return a file's length in bytes and its modification time in nanoseconds.

        Raises:
            OSError: the file does not exist.
        """
        status = os.stat(self.name(key))  # noqa: PTH116 - a hot path
        return status.st_size, status.st_mtime_ns

    def fingerprint(self) -> str:
        """Return a digest of all files' paths, lengths and modification times: see `Source`."""

        def stamp(key: int) -> tuple[int, int]:
            try:
                return self.stamp(key)
            except OSError:  # it counts as bad when it is read
                return -1, -1

        stamps = thread_map(
            stamp, range(len(self)), threads=_THREADS, done=lambda _: None, name="gpufeed-stamps"
        )
        digest = hashlib.sha256(np.array(stamps, np.int64).tobytes())
        digest.update(os.fsencode(f"{self._max_bytes}\0{self._folder}"))
        for paths in pieces(self.paths):
            digest.update(os.fsencode("\0".join(["", *paths])))
        return digest.hexdigest()
