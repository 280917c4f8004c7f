"""A file made of bytes that a function reads, such as one member of an archive."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

__all__ = ["Read", "Window"]

Read = Callable[[int, int], bytes | memoryview]
"""From the first byte and the number of bytes to these bytes; fewer at the end."""


class Window(io.RawIOBase):
    """A seekable file.

    Args:
        read: reads bytes of the file.
        length: of the file.
    """

    def __init__(self, read: Read, length: int) -> None:
        self._read = read
        self._length = length
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position, and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._length}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Read bytes at the position, and return how many."""
        length = min(len(buffer), self._length - self._position)
        content = self._read(self._position, length) if length > 0 else b""
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)

    def readall(self) -> bytes:
        """Read the rest, at once where that is possible."""
        rest = iter(lambda: self.read(max(self._length - self._position, 0)), b"")
        return b"".join(rest)
