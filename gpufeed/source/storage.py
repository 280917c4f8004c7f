"""Storage: files below one root, read by byte ranges. `LocalStorage` is a folder."""

from __future__ import annotations

import copy
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, Protocol, Self, TypeVar

from gpufeed._util.memory import Slices
from gpufeed._util.open_regular import open_descriptor, open_regular

__all__ = ["LocalStorage", "OpenFiles", "Ranges", "Stamp", "Storage", "StoredRange"]

_MAX_OPEN = 256
"""Files that a storage keeps open: opening one again costs a request where a network is between."""


Opened = TypeVar("Opened")


class Stamp(NamedTuple):
    """What changes with a file's content.

    Attributes:
        length: in bytes.
        version: such as the time of its last change, or its ETag.
    """

    length: int
    version: str

    def numbers(self) -> tuple[int, int]:
        """Return the length, and an int64 that changes with the stamp."""
        digest = hashlib.sha256(repr(self).encode()).digest()
        return self.length, int.from_bytes(digest[:8], "little", signed=True)


class StoredRange(NamedTuple):
    """Some bytes of a file.

    Attributes:
        path: of the file, relative to the root, with `/` as the separator.
        start: the first byte.
        length: the number of bytes.
        stamp: the stamp that the file must have; None for any.
    """

    path: str
    start: int
    length: int
    stamp: Stamp | None = None


class Ranges(Protocol):
    """Byte ranges of files. Methods are called from several threads at once; it is picklable."""

    def read(self, ranges: Sequence[StoredRange]) -> list[bytes | memoryview | OSError]:
        """Read byte ranges.

        Returns:
            For each range, in order, its bytes; or an `OSError` that says why they cannot be read,
            such as that the file is shorter, or no longer has its stamp.
        """
        ...

    def name(self, path: str) -> str:
        """Return the name of a file in errors: its full path or URL, without credentials."""
        ...


class Storage(Ranges, Protocol):
    """Files below one root, on this machine or elsewhere."""

    def open(self, path: str) -> BinaryIO:
        """Open a file that can seek.

        Raises:
            OSError: it cannot be opened.
        """
        ...

    def stamp(self, path: str) -> Stamp:
        """Return the stamp of a file.

        Raises:
            OSError: there is no such file.
        """
        ...

    def find(self, pattern: str) -> list[str]:
        """Return the paths of the files that match a pattern as of `pathlib.Path.glob`, sorted.

        Raises:
            OSError: the files cannot be listed.
        """
        ...


class LocalStorage:
    """Files below a folder.

    Args:
        root: the folder; it may be a symbolic link.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).absolute()
        self._files = OpenFiles(_OpenFile)
        self._slices: Slices | None = None

    def __repr__(self) -> str:
        return f"LocalStorage({str(self.root)!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["root"])  # type: ignore[misc]

    def read(self, ranges: Sequence[StoredRange]) -> list[bytes | memoryview | OSError]:
        """Read byte ranges: see `Storage`."""
        return [self._read(each) for each in ranges]

    def _read(self, wanted: StoredRange) -> bytes | memoryview | OSError:
        try:
            file = self._files.open(self.name(wanted.path))
            descriptor, length = file.descriptor, wanted.length
            status = os.fstat(descriptor)
            if wanted.stamp is not None and _stamp(status) != wanted.stamp:
                self._files.forget(self.name(wanted.path))
                raise OSError("the file has changed since it was indexed")
            room = None if self._slices is None else self._slices.take(length)
            if room is None:
                content: bytes | memoryview = os.pread(descriptor, length, wanted.start)
            else:
                content = room[: os.preadv(descriptor, [room], wanted.start)].toreadonly()
            while len(content) < length:
                at = wanted.start + len(content)
                chunk = os.pread(descriptor, length - len(content), at)
                if not chunk:
                    raise OSError(f"the file ends at byte {at:,}, within the image")
                content = b"".join((content, chunk))
        except OSError as error:
            # The frames of its traceback would keep the whole batch alive.
            return error.with_traceback(None)
        return content

    def open(self, path: str) -> BinaryIO:
        """Open a file: see `Storage`."""
        return open_regular(self.name(path))

    def stamp(self, path: str) -> Stamp:
        """Return a file's length, and the time of its last change in nanoseconds."""
        return _stamp(os.stat(self.name(path)))  # noqa: PTH116

    def find(self, pattern: str) -> list[str]:
        """Find files: see `Storage`."""
        found = (path for path in self.root.glob(pattern) if path.is_file())
        return sorted(path.relative_to(self.root).as_posix() for path in found)

    def name(self, path: str) -> str:
        """Return a file's full path: see `Storage`."""
        return os.path.join(self.root, path)  # noqa: PTH118 - keeps the path's spelling

    def reusing_memory(self, slices: Slices) -> Self:
        """Return the same storage, which reads short ranges into slices of memory."""
        reusing = copy.copy(self)
        reusing._files = self._files
        reusing._slices = slices
        return reusing


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_size, str(status.st_mtime_ns))


class _OpenFile:
    """A file that is closed when nothing refers to it."""

    def __init__(self, path: str) -> None:
        self.descriptor, _ = open_descriptor(path)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


class OpenFiles(Generic[Opened]):
    """The files that were read last, kept open; each is closed after its last reader is done.

    Args:
        open: opens a file, given its path. The file is closed when nothing refers to it.
    """

    def __init__(self, open: Callable[[str], Opened]) -> None:  # noqa: A002
        self._lock = threading.Lock()
        self._open = open
        self._files: OrderedDict[str, Opened] = OrderedDict()

    def open(self, path: str) -> Opened:
        """Return a file, opening it if it is not open."""
        with self._lock:
            if (file := self._files.get(path)) is not None:
                self._files.move_to_end(path)
                return file
        opened = self._open(path)
        with self._lock:
            opened = self._files.setdefault(path, opened)
            while len(self._files) > _MAX_OPEN:
                self._files.popitem(last=False)
        return opened

    def forget(self, path: str) -> None:
        """Let the file be opened again, since another may have replaced it."""
        with self._lock:
            self._files.pop(path, None)
