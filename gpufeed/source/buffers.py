"""Buffers in memory, read like files."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from gpufeed.source.storage import Stamp, StoredRange

__all__ = ["BufferStorage"]


class BufferStorage:
    """`Ranges` of buffers in memory, such as those of an Arrow table; nothing is copied.

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
        """Return views of the buffers: see `Ranges`."""
        return [self._view(path)[start : start + length] for path, start, length, _ in ranges]

    def stamp(self, path: str) -> Stamp:
        """Return the buffer's length, and a text that no other storage has."""
        return Stamp(len(self._view(path)), self._version)

    def name(self, path: str) -> str:
        """Return a name for errors: see `Ranges`."""
        return f"buffer {path}"
