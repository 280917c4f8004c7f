"""Bounds the memory of pictures that are decoded at a time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

__all__ = ["Budget"]

_FREE = 1 << 24
"""Pixels of pictures that are not counted, since the number of threads bounds them."""
_EACH = 1 << 25
"""Pixels for each thread: cameras' pictures wait for nobody."""


class Budget:
    """So many pixels of large pictures may be worked on at a time, and always one picture.

    A picture takes up to nine bytes a pixel while it is decoded and resized. A thread for each core
    with as large a picture as there may be would take more than many machines have.

    Args:
        max_pixels: the most of a picture.
        num_threads: how many work at a time.

    Attributes:
        pixels: how many there may be.
    """

    def __init__(self, max_pixels: int, num_threads: int) -> None:
        self.pixels = max(max_pixels, num_threads * _EACH)
        self._taken = 0
        self._given_back = threading.Condition()

    def take(self, pixels: int) -> contextlib.AbstractContextManager[None]:
        """Return a context within which a picture of so many pixels may be worked on."""
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
