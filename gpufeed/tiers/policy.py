"""Which records a tier keeps, and which of them it gives up for another."""

from __future__ import annotations

import heapq
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from gpufeed.tiers.future import Future

__all__ = ["Kept"]

_PART = 16
"""The share of the kept records, as its inverse, that are sorted by their rank at a time."""
_LEAST = 256


class Kept:
    """The records of one tier, and which of them to give up: those of the greatest rank.

    A record whose own rank is no less than those of all kept ones is not admitted. With images of
    one size and a known future, no other choice reads less from the source (Belady 1966).

    Args:
        future: the ranks of all records.

    Attributes:
        sizes: uint32 (num_records,), what each record takes, in any unit; 0 if it is not kept.
        total: their sum.
    """

    def __init__(self, future: Future) -> None:
        self._future = future
        self.sizes: npt.NDArray[np.uint32] = np.zeros(len(future.rank), np.uint32)
        self.total = 0
        # A heap of the records of the greatest rank, as -(rank * num_records + key). All that are
        # kept and rank above `_least` are in it, beside some that no longer are or do.
        self._heap: list[int] = []
        self._least = -1
        self._most = 0
        self._changes = -1

    def put(self, key: int, size: int) -> None:
        """Note that a record is kept and takes `size`, or with 0, that it is not kept."""
        self.total += size - int(self.sizes[key])
        self.sizes[key] = size
        if size:
            self._offer(key)

    def replace(self, sizes: npt.NDArray[np.uint32]) -> None:
        """Take over what all records take."""
        self.sizes = sizes
        self.total = int(sizes.sum(dtype=np.int64))
        self._changes = -1

    def moved(self, keys: npt.NDArray[np.int64]) -> None:
        """Note that the ranks of records have changed."""
        for key in keys[self.sizes[keys] > 0].tolist():
            self._offer(key)

    def victims(self, rank: int, needed: int) -> list[int] | None:
        """Return the records to give up for one of a rank; they count as kept until `put`.

        Args:
            rank: the rank of the record.
            needed: what they must take together, at least.

        Returns:
            Their keys, which may be none; None if the record should not be kept.
        """
        if needed > self.total:
            return None
        chosen: dict[int, int] = {}
        while needed > 0:
            found = self._greatest(chosen)
            if found is None or found[1] <= rank:
                for key, its in [*chosen.items(), *([found] if found else [])]:
                    self._push(key, its)
                return None
            chosen[found[0]] = found[1]
            needed -= int(self.sizes[found[0]])
        return list(chosen)

    def _push(self, key: int, rank: int) -> None:
        heapq.heappush(self._heap, -(rank * len(self.sizes) + key))

    def _offer(self, key: int) -> None:
        """Put a record into the heap if its rank belongs there, unless all are to be sorted."""
        if self._changes != self._future.changes:
            return
        if len(self._heap) > self._most:
            self._heap, self._changes = [], -1
            return
        rank = int(self._future.rank[key])
        if rank > self._least:
            self._push(key, rank)

    def _greatest(self, chosen: Collection[int]) -> tuple[int, int] | None:
        """Take the record of the greatest rank out of the heap, unless chosen; with its rank."""
        if self._changes != self._future.changes:
            self._sort(chosen)
        ranks = self._future.rank
        for _ in range(2):
            while self._heap:
                rank, key = divmod(-heapq.heappop(self._heap), len(self.sizes))
                if self.sizes[key] and ranks[key] == rank and key not in chosen:
                    return key, rank
            self._sort(chosen)
        return None

    def _sort(self, chosen: Collection[int]) -> None:
        """Fill the heap with the greatest ranks of all that is kept and not yet chosen."""
        keys = np.flatnonzero(self.sizes)
        keys = keys[~np.isin(keys, list(chosen))]
        ranks = self._future.rank[keys]
        count = max(_LEAST, len(keys) // _PART)
        self._least = -1
        if len(keys) > count:
            greatest = np.argpartition(ranks, len(keys) - count)[-count:]
            keys, ranks = keys[greatest], ranks[greatest]
            self._least = int(ranks.min())
        self._heap = [
            -(rank * len(self.sizes) + key)
            for rank, key in zip(ranks.tolist(), keys.tolist(), strict=True)
        ]
        heapq.heapify(self._heap)
        self._most = 4 * max(count, len(self._heap))
        self._changes = self._future.changes
