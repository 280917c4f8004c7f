"""Reads a source on several threads, where it is slow."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from gpufeed.source.base import Encoded, Source, read_images
from gpufeed.source.wrapper import Wrapper

__all__ = ["SLOW", "THREADS", "Threaded"]

THREADS = 8
"""Threads that read: they wait for storage, so their number does not follow the cores."""

SLOW = 0.5e-3
"""Seconds an image from which on reading side by side pays.

A file in the page cache takes a tenth of that, and four times as long where threads that share an
interpreter take turns; a disk or a network gains from many.
"""

_AT_A_TIME = 4
"""Images read by one call and timed together."""


class Threaded(Wrapper):
    """Reads on the calling thread as long as that is fast, else on several."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._pool = ThreadPoolExecutor(THREADS, "gpufeed-read")
        self._slow = False

    def read(self, keys: npt.NDArray[np.int64]) -> list[Encoded | OSError]:
        """Read images: see `Source`."""
        found: list[Encoded | OSError] = []
        while len(found) < len(keys) and not self._slow:
            part, seconds = self._timed(keys[len(found) : len(found) + _AT_A_TIME])
            found += part
            self._slow = seconds > SLOW
        rest = keys[len(found) :]
        if len(rest):
            # Few at a time, so that the last thread to finish is not far behind.
            each = -(-len(rest) // (4 * THREADS))
            parts = [rest[start : start + each] for start in range(0, len(rest), each)]
            spent = 0.0
            for part, seconds in self._pool.map(self._timed, parts):
                found += part
                spent += seconds * len(part)
            self._slow = spent / len(rest) > SLOW
        return found

    def _timed(self, keys: npt.NDArray[np.int64]) -> tuple[list[Encoded | OSError], float]:
        """Return images, and how many seconds each took."""
        began = time.perf_counter()
        found = read_images(self.source, keys)
        return found, (time.perf_counter() - began) / len(keys)

    def close(self) -> None:
        """End the threads, when they have read what they are reading."""
        self._pool.shutdown(cancel_futures=True)
