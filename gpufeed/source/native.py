"""Files that are read by third-party libraries, and that each process must open itself."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from gpufeed.errors import ConfigError
from gpufeed.source.locate import Root, common_folder
from gpufeed.source.saved_files import find_files, save_files
from gpufeed.source.storage import LocalStorage, OpenFiles, Stamp

__all__ = ["NativeFiles"]

Opened = TypeVar("Opened")


class NativeFiles(Generic[Opened]):
    """Files that a library opens, and that must not change meanwhile.

    Args:
        paths: of the files.
        open: has the library open a file, given its path; raises `OSError` if it cannot. Two
            threads may open the same file at once; one of the two is then dropped.
        stamps: those that the files must have; None for those that they have now.

    Attributes:
        paths: absolute.

    Raises:
        OSError: there is no such file.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        open: Callable[[str], Opened],  # noqa: A002
        stamps: Sequence[Stamp] | None = None,
    ) -> None:
        self.paths = [os.fspath(Path(path).absolute()) for path in paths]
        self._storage = LocalStorage("/")
        self._stamps = stamps or [self._storage.stamp(path) for path in self.paths]
        self._open = open
        self._opened: tuple[int, OpenFiles[Opened]] | None = None

    def to_saved(self) -> dict[str, Any]:
        """Return as JSON where the files are."""
        root, files = common_folder([Path(path) for path in self.paths])
        return save_files(LocalStorage(root), files, self._stamps) or {}

    @classmethod
    def from_saved(
        cls,
        about: dict[str, Any],
        root: Root | None,
        open: Callable[[str], Opened],  # noqa: A002
    ) -> Self:
        """Return the files that were saved; errors as for `find_files`.

        Raises:
            ConfigError: the root is not a folder of this machine.
        """
        storage, files, stamps = find_files(about, root)
        if not isinstance(storage, LocalStorage):
            raise ConfigError(
                f"{storage.name(files[0])} is a URL, and the library of its format reads files of "
                "this machine only; copy them"
            )
        return cls([storage.name(file) for file in files], open, stamps)

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
