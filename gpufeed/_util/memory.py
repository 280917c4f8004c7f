"""Reusable memory for batches of images, and for encoded files."""

from __future__ import annotations

import mmap
import threading
import weakref
from collections import deque

import numpy as np
import numpy.typing as npt

__all__ = ["Memory", "Slices"]

_BLOCK = 1 << 22
_MAX_SLICE = 1 << 19


class Memory:
    """A pool of memory blocks; a block returns to the pool when nothing refers to it.

    Batches are allocated on one thread and freed on another. With malloc, the heap of every thread
    would grow to the size of some batches, and fresh memory from the system costs a page fault for
    every four kilobytes.
    """

    def __init__(self) -> None:
        self._free: deque[mmap.mmap] = deque()

    def take(self, size: int) -> npt.NDArray[np.uint8]:
        """Return uninitialized memory, uint8 (size,), for as long as it or a view of it lives.

        Raises:
            MemoryError: the system has no memory left.
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
        # NumPy's views refer to `whole`, not to the block, so `whole` outlives all of them.
        weakref.finalize(whole, self._free.append, block).atexit = False
        return whole


class Slices:
    """Memory for many small buffers: slices of large blocks of a `Memory`.

    Memory from malloc goes back to the system when a batch is dropped, and each of its pages is
    cleared when it comes again, which takes as long as reading a file into it.
    """

    def __init__(self) -> None:
        self._memory = Memory()
        self._rest = memoryview(bytearray())
        self._lock = threading.Lock()

    def take(self, size: int) -> memoryview | None:
        """Return uninitialized memory of `size` bytes, or None if that is large; thread-safe."""
        if size > _MAX_SLICE:
            return None
        with self._lock:
            if size > len(self._rest):
                self._rest = self._memory.take(_BLOCK).data
            taken, self._rest = self._rest[:size], self._rest[-(-size // 64) * 64 :]
        return taken
