"""The future of records: when each is read next on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpufeed.tiers.order import Uses

__all__ = ["Block", "Future", "UsesOf", "foresee"]

Int64 = npt.NDArray[np.int64]
UInt32 = npt.NDArray[np.uint32]

_NEVER = (1 << 32) - 1
"""The rank of a record that is not read within what is known, and has not been read either."""


UsesOf = Callable[[int, int], Uses]
"""Returns what is read in steps, given the first and their number."""


class Block(NamedTuple):
    """What is known of the steps of a block.

    Attributes:
        first: its first step.
        steps: number of steps.
        starts: int64 (steps + 1,), where each step's records start in the arrays below.
        keys: uint32 or int64 (n,), the records that are read.
        after: uint32 (n,), rank of each of them once it has been read.
        rank: uint32 (num_records,), rank of every record before the first step.
    """

    first: int
    steps: int
    starts: Int64
    keys: Int64 | UInt32
    after: UInt32
    rank: UInt32

    def at(self, step: int) -> slice:
        """Return where a step's records are in the arrays."""
        place = step - self.first
        if place + 1 >= len(self.starts):
            return slice(0, 0)
        return slice(int(self.starts[place]), int(self.starts[place + 1]))


def foresee(uses: UsesOf, first: int, steps: int, num_records: int) -> Block:
    """Compute a block, from what is read in its steps and in as many after it.

    It takes time and memory proportional to the reads of the block and to the number of records.

    Args:
        uses: what is read in steps.
        first: the first step.
        steps: number of steps.
        num_records: number of records.
    """
    here, later = uses(first, steps), uses(first + steps, steps)
    rank = np.full(num_records, _NEVER, np.uint32)
    # Of several values for one index NumPy keeps the last, which is a record's first use.
    rank[later.keys[::-1]] = _times(later, first)[::-1]
    times = _times(here, first)
    by_key = np.argsort(here.keys, kind="stable")
    sorted_keys = here.keys[by_key]
    after = np.empty(len(times), np.uint32)
    after[by_key] = rank[sorted_keys]
    again = np.flatnonzero(sorted_keys[1:] == sorted_keys[:-1])
    after[by_key[again]] = times[by_key[again + 1]]
    unknown = after == _NEVER
    after[unknown] = _NEVER - 1 - times[unknown]
    rank[here.keys[::-1]] = times[::-1]
    wide = num_records >= 1 << 32
    keys = here.keys if wide else here.keys.astype(np.uint32)
    return Block(first, steps, here.starts, keys, after, rank)


def _times(uses: Uses, first: int) -> UInt32:
    counts = np.diff(uses.starts)
    steps = np.arange(uses.first - first, uses.first - first + len(counts), dtype=np.uint32)
    return np.repeat(steps, counts)


class Future:
    """The rank of each record: the greater, the better it is given up.

    The rank of a record whose next use is known is the time until then. Of others, which rank
    above them, the least recently used has the greatest. Where nothing is known, giving up the
    greatest is therefore "least recently used", and where all is known it is Belady's MIN.

    Args:
        num_records: number of records.

    Attributes:
        rank: uint32 (num_records,); changes as time passes.
        block: what is known; None for nothing.
        changes: how many times all ranks have been replaced.
    """

    def __init__(self, num_records: int) -> None:
        self.rank: UInt32 = np.full(num_records, _NEVER, np.uint32)
        self.block: Block | None = None
        self.changes = 0
        self._clock = 0
        self._passed = 0

    def enter(self, block: Block) -> None:
        """Continue with a block, at its first step."""
        self.block, self.rank, self._passed = block, block.rank, block.first
        self.changes += 1

    def forget(self) -> None:
        """Know nothing of the future from here on."""
        if self.block is not None:
            self.block = None
            self.rank = np.full(len(self.rank), _NEVER, np.uint32)
            self._clock = 0
            self.changes += 1

    def touch(self, keys: Int64) -> Int64:
        """Note that records were read now; return those whose rank has changed.

        If the future is known, `end` does this.
        """
        if self.block is not None:
            return keys[:0]
        self._clock = min(self._clock + 1, _NEVER - 1)
        self.rank[keys] = _NEVER - self._clock
        return keys

    def end(self, step: int) -> Int64:
        """Pass the steps up to `step`, all read now; return the records whose rank has changed."""
        block, changed = self.block, []
        if block is not None:
            for each in range(self._passed, min(step + 1, block.first + block.steps)):
                where = block.at(each)
                keys = block.keys[where]
                self.rank[keys] = block.after[where]
                changed.append(keys)
            self._passed = max(self._passed, step + 1)
        return np.concatenate(changed).astype(np.int64) if changed else np.empty(0, np.int64)

    def rank_after(self, key: int, step: int) -> int:
        """Return the rank that a record will have when `step` has been read."""
        rank, block = int(self.rank[key]), self.block
        if block is None:
            return min(rank, _NEVER - self._clock)
        while rank <= step - block.first:
            where = block.at(block.first + rank)
            uses = np.flatnonzero(block.keys[where] == key)
            if not len(uses):
                break
            rank = int(block.after[where.start + int(uses[-1])])
        return rank
