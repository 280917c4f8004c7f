"""Bounds the memory of images that are decoded at a time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

__all__ = ["Budget"]

_FREE = 1 << 24
"""Pixels of images that are not counted, since the number of threads bounds them."""
_EACH = 1 << 25
"""Pixels for each thread: cameras' images wait for nobody."""
_BYTES = 9
"""Memory that a pixel takes while its image is decoded and resized."""


class Budget:
    """Lets threads work on so many pixels of large images at a time, and always on one image.

    With as large an image as there may be on each thread, they would take more memory than many
    machines have.

    Args:
        max_pixels: the most pixels of an image.
        num_threads: how many threads work at a time.
        memory: bytes that they may take together, if one image takes no more.

    Attributes:
        pixels: how many may be worked on at a time.
    """

    def __init__(self, max_pixels: int, num_threads: int, memory: int = 1 << 62) -> None:
        self.pixels = max(max_pixels, min(num_threads * _EACH, memory // _BYTES))
        self._taken = 0
        self._given_back = threading.Condition()

    def take(self, pixels: int) -> contextlib.AbstractContextManager[None]:
        """Return a context within which an image of so many pixels may be worked on."""
        return _FOR_ALL if pixels <= _FREE else self._taking(pixels)

    @contextlib.contextmanager
    def _taking(self, pixels: int) -> Iterator[None]:
        with self._given_back:
            self._given_back.wait_for(
                lambda: not self._taken or self._taken + pixels <= self.pixels
            )
            self._taken += pixels
        try:
            yield
        finally:
            with self._given_back:
                self._taken -= pixels
                self._given_back.notify_all()


_FOR_ALL = contextlib.nullcontext()
