"""Files that are read by third-party libraries, and that each process must open itself."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from gpufeed.source.storage import LocalStorage, OpenFiles

__all__ = ["NativeFiles"]

Opened = TypeVar("Opened")


class NativeFiles(Generic[Opened]):
    """Files that a library opens, and that must not change meanwhile.

    Args:
        paths: of the files.
        open: has the library open a file, given its path; raises `OSError` if it cannot. Two
            threads may open the same file at once; one of the two is then dropped.

    Attributes:
        paths: absolute.

    Raises:
        OSError: there is no such file.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        open: Callable[[str], Opened],  # noqa: A002
    ) -> None:
        self.paths = [os.fspath(Path(path).absolute()) for path in paths]
        self._storage = LocalStorage("/")
        self._stamps = [self._storage.stamp(path) for path in self.paths]
        self._open = open
        self._opened: tuple[int, OpenFiles[Opened]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def open(self, number: int = 0) -> Opened:
        """Return a file as the library has opened it in this process.

        Raises:
            OSError: the file is gone, has changed, or cannot be opened.
        """
        path = self.paths[number]
        if self._storage.stamp(path) != self._stamps[number]:
            raise OSError(f"{path} has changed since it was indexed")
        opened = self._opened
        if opened is None or opened[0] != os.getpid():
            opened = self._opened = os.getpid(), OpenFiles(self._open)
        return opened[1].open(path)

    def fingerprint(self, *more: object) -> str:
        """Return a digest of the files' paths and stamps, and of more."""
        return hashlib.sha256(repr((self.paths, self._stamps, more)).encode()).hexdigest()
