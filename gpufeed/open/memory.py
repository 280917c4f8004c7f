"""Memory for whole batches, used again and again."""

from __future__ import annotations

import mmap
import weakref
from collections import deque

import numpy as np
import numpy.typing as npt

__all__ = ["Memory"]


class Memory:
    """Hands out blocks of memory, and takes each back when nothing refers to it any more.

    A batch is begun on one thread and let go on another. Left to malloc, each of the heaps that it
    has for different threads would come to keep what some batches took; and memory that is new from
    the system costs a page fault for every four kilobytes.
    """

    def __init__(self) -> None:
        self._free: deque[mmap.mmap] = deque()

    def take(self, size: int) -> npt.NDArray[np.uint8]:
        """Return memory for what it and its views are used for: uint8 (size,), not set to anything.

        Raises:
            MemoryError: there is none.
        """
        try:
            block = self._free.pop()
        except IndexError:
            block = None
        if block is None or len(block) < size:
            try:
                block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            except OSError as error:
                raise MemoryError(f"{error.strerror}, for {size:,} bytes") from error
        whole = np.frombuffer(block, np.uint8, size)
        # NumPy's views refer to `whole`, not to the block, so that its end is that of all.
        weakref.finalize(whole, self._free.append, block).atexit = False
        return whole
