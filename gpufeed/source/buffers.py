"""Buffers in memory, read like files."""

from __future__ import annotations

import io
import uuid
from collections.abc import Sequence
from typing import Any, BinaryIO

from gpufeed.source.storage import Stamp, StoredRange

__all__ = ["BufferStorage"]


class BufferStorage:
    """A `Storage` of buffers in memory, such as those of an Arrow table; nothing is copied.

    Args:
        buffers: objects with the buffer protocol. The path of a buffer is its index.
    """

    def __init__(self, buffers: Sequence[Any]) -> None:
        self._buffers = buffers
        self._version = uuid.uuid4().hex

    def __repr__(self) -> str:
        return f"BufferStorage({len(self._buffers)} buffers)"

    def _view(self, path: str) -> memoryview:
        return memoryview(self._buffers[int(path)]).cast("B")

    def read(self, ranges: Sequence[StoredRange]) -> list[bytes | memoryview | OSError]:
        """Return views of the buffers: see `Storage`."""
        return [self._view(path)[start : start + length] for path, start, length, _ in ranges]

    def open(self, path: str) -> BinaryIO:
        """Open a buffer: see `Storage`."""
        return io.BytesIO(self._view(path))

    def stamp(self, path: str) -> Stamp:
        """Return the buffer's length, and a text that no other storage has."""
        return Stamp(len(self._view(path)), self._version)

    def find(self, pattern: str) -> list[str]:
        """Raise `OSError`, since buffers have no names."""
        raise OSError(f"buffers in memory have no names to match {pattern!r}")

    def name(self, path: str) -> str:
        """Return a name for errors: see `Storage`."""
        return f"buffer {path}"
