"""Reads a slow source, or long images, on several threads."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from gpufeed._util.limits import available_threads
from gpufeed.source.base import Content, Source, read_images
from gpufeed.source.wrapper import Wrapper

__all__ = ["LONG", "SLOW", "THREADS", "Threaded"]

THREADS = 8
"""Number of reading threads. They wait for storage, so it does not depend on the cores."""

SLOW = 0.5e-3
"""Seconds per image above which reading on several threads is faster.

A file in the page cache takes a tenth of this. Disks and networks gain from many threads.
"""

LONG = 1 << 16
"""Bytes per image above which the system's copying, during which the interpreter is free, prevails.

Reading shorter images is mostly Python, and takes longer on threads that compete for it.
"""

_COPYING = 4
"""Threads that read long images at most: more would wait for the interpreter."""

_LEAST, _MOST = 4, 64
"""Images that the calling thread reads in one call, and times together: few at first.

The more they are, the less it matters that the thread had to wait for a core meanwhile.
"""


class Threaded(Wrapper):
    """Reads short images on the calling thread while that is fast, and others on several."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._pool = ThreadPoolExecutor(THREADS, "gpufeed-read")
        self._copying = min(available_threads(), _COPYING)
        self._count = _LEAST
        self._parts = 1

    def read(self, keys: npt.NDArray[np.int64]) -> list[Content | OSError]:
        """Read images: see `Source`."""
        images: list[Content | OSError] = []
        while len(images) < len(keys) and self._parts == 1:
            chunk, seconds = self._timed(keys[len(images) : len(images) + self._count])
            self._learn(chunk, seconds)
            images += chunk
        rest = keys[len(images) :]
        if len(rest):
            size = -(-len(rest) // self._parts)
            parts = [rest[start : start + size] for start in range(0, len(rest), size)]
            total, read = 0.0, []
            for chunk, seconds in self._pool.map(self._timed, parts):
                read += chunk
                total += seconds * len(chunk)
            self._learn(read, total / len(rest))
            images += read
        return images

    def _learn(self, images: list[Content | OSError], seconds: float) -> None:
        """Decide in how many parts the next images are read, by how these were."""
        # Pixels count by their rows: there is nothing to copy.
        length = sum(len(image) for image in images if not isinstance(image, OSError))
        if seconds > SLOW:
            # Small parts, so that all threads finish at about the same time.
            self._parts, self._count = 4 * THREADS, _LEAST
        else:
            self._parts = self._copying if length > LONG * len(images) else 1
            self._count = min(2 * self._count, _MOST)

    def _timed(self, keys: npt.NDArray[np.int64]) -> tuple[list[Content | OSError], float]:
        """Read images, and return them with the seconds that each took on average."""
        start = time.perf_counter()
        images = read_images(self.source, keys)
        return images, (time.perf_counter() - start) / len(keys)

    def close(self) -> None:
        """Stop the threads after their current reads."""
        if self._owns_threads:
            self._pool.shutdown(cancel_futures=True)
