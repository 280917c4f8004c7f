"""Encoded images, shuffled and prefetched, for contenders that decode whole batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.compare.work import Work

__all__ = ["places", "read_batches"]

_AHEAD = 3
"""Batches that are read ahead."""

_READERS = 16
"""Threads that read: they wait for storage, not for a core."""


def places(work: Work) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the places in `work.paths` of each batch's images, int64 (batch_size,), on and on."""
    drawn = np.random.default_rng(0)
    while True:
        order = drawn.permutation(len(work.paths))
        for first in range(0, len(order) - work.batch_size + 1, work.batch_size):
            yield order[first : first + work.batch_size]


def read_batches(work: Work) -> Iterator[tuple[list[bytes], npt.NDArray[np.int64]]]:
    """Yield each batch's files, and their places."""
    files = [Path(file) for file in work.files]
    ahead: deque[tuple[list[Future[bytes]], npt.NDArray[np.int64]]] = deque()
    with ThreadPoolExecutor(_READERS) as pool:
        for batch in places(work):
            ahead.append(([pool.submit(files[place].read_bytes) for place in batch], batch))
            if len(ahead) > _AHEAD:
                reading, read = ahead.popleft()
                yield [future.result() for future in reading], read
