"""Reads a slow source on several threads."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from gpufeed.source.base import Encoded, Source, read_images
from gpufeed.source.wrapper import Wrapper

__all__ = ["SLOW", "THREADS", "Threaded"]

THREADS = 8
"""Number of reading threads. They wait for storage, so it does not depend on the cores."""

SLOW = 0.5e-3
"""Seconds per image above which reading on several threads is faster.

A file in the page cache takes a tenth of this, and four times longer on several threads, which
compete for the interpreter. Disks and networks gain from many threads.
"""

_SHORT = 1 << 16
"""Bytes per image below which calling threads read one after the other.

Reading such images is mostly Python, and threads that compete for the interpreter take twice the
CPU time.
"""

_LEAST, _MOST = 4, 64
"""Images that the calling thread reads in one call, and times together: few at first.

The more they are, the less it matters that the thread had to wait for a core meanwhile.
"""


class Threaded(Wrapper):
    """Reads on the calling thread while that is fast, otherwise on several threads."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._pool = ThreadPoolExecutor(THREADS, "gpufeed-read")
        self._slow = False
        self._count = _LEAST
        self._short = False
        self._turn = threading.Lock()

    def read(self, keys: npt.NDArray[np.int64]) -> list[Encoded | OSError]:
        """Read images: see `Source`."""
        images: list[Encoded | OSError] = []
        while len(images) < len(keys) and not self._slow:
            with self._turn if self._short else contextlib.nullcontext():
                chunk, seconds = self._timed(keys[len(images) : len(images) + self._count])
            images += chunk
            lengths = [len(image) for image in chunk if not isinstance(image, OSError)]
            self._short = sum(lengths) < _SHORT * len(chunk)
            self._slow = seconds > SLOW
            self._count = _LEAST if self._slow else min(2 * self._count, _MOST)
        rest = keys[len(images) :]
        if len(rest):
            # Small chunks, so that all threads finish at about the same time.
            size = -(-len(rest) // (4 * THREADS))
            chunks = [rest[start : start + size] for start in range(0, len(rest), size)]
            total = 0.0
            for chunk, seconds in self._pool.map(self._timed, chunks):
                images += chunk
                total += seconds * len(chunk)
            self._slow = total / len(rest) > SLOW
        return images

    def _timed(self, keys: npt.NDArray[np.int64]) -> tuple[list[Encoded | OSError], float]:
        """Read images, and return them with the seconds that each took on average."""
        start = time.perf_counter()
        images = read_images(self.source, keys)
        return images, (time.perf_counter() - start) / len(keys)

    def close(self) -> None:
        """Stop the threads after their current reads."""
        if self._owns_threads:
            self._pool.shutdown(cancel_futures=True)
