"""The global shuffle of one epoch."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from gpufeed import rng

__all__ = ["permutation"]


@functools.lru_cache(maxsize=4)
def permutation(num_records: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Return a uniformly drawn order of `num_records` records, the same on every machine.

    Each record gets a 64-bit key and the records are sorted by it. The last few orders are kept,
    since batches on both sides of an epoch's end are planned in turn.

    Returns:
        int64 (num_records,), read-only.
    """
    records = np.arange(num_records, dtype=np.int64)
    drawn = rng.words(seed, np.full(num_records, epoch), records, rng.ORDER_STREAM, 0, 1)
    keys = drawn[:, 0].astype(np.uint64) << np.uint64(32) | drawn[:, 1]
    order = np.argsort(keys, kind="stable").astype(np.int64)
    order.flags.writeable = False
    return order
