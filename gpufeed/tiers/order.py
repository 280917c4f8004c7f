"""The order of use: which records the processes of this machine read in each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpufeed._util.limits import local_rank, local_world_size
from gpufeed.order.foreign import GrainSampler, RecordedSampler
from gpufeed.order.sampler import Sampler
from gpufeed.order.schedule import Schedule
from gpufeed.order.shard import ShardOptions

__all__ = ["BACK", "Order", "Uses", "foresees", "shards_of_machine"]

Int64 = npt.NDArray[np.int64]

BACK = 64
"""Steps that a reader may be behind another. One that is further back has moved."""

_TOGETHER = 1 << 16
"""Positions that the sampler is asked for at a time, if there are as many."""


class Uses(NamedTuple):
    """The records that are read in some steps.

    Attributes:
        first: the first step.
        starts: int64 (steps + 1,), where each step's records start in `keys`; the last is its end.
        keys: int64 (n,), record keys in the order of use.
    """

    first: int
    starts: Int64
    keys: Int64


class Order:
    """The records that some shards of a run read in each step.

    Args:
        sampler: the global order.
        schedule: divides it; any shard's.
        shards: the shards whose records count.
        repeats: whether step 0 follows the last step, as in a loader with `restart`.
    """

    def __init__(
        self, sampler: Sampler, schedule: Schedule, shards: range, *, repeats: bool = False
    ) -> None:
        self._sampler = sampler
        count = schedule.shard.shard_count
        self._schedules = [schedule.of_shard(ShardOptions(each, count)) for each in shards]
        self._num_steps = schedule.num_steps
        self._repeats = repeats
        self._size = len(shards) * min(schedule.sizes.values())

    def steps_for(self, count: int) -> int:
        """Return a number of steps in which about `count` records are read, at least 1."""
        return max(1, -(-count // self._size))

    def time(self, step: int, now: int) -> int:
        """Return the time of a step: its number; where steps repeat, that of a turn of it.

        Args:
            step: number of a step.
            now: the time of a step that was read about then.
        """
        if not self._repeats or self._num_steps is None:
            return step
        first = now - min(BACK, (self._num_steps - 1) // 2)
        return first + (step - first) % self._num_steps

    def uses(self, first: int, steps: int, stop: Callable[[], bool] = lambda: False) -> Uses:
        """Return what is read in steps from `first` on; nothing after the run's last step.

        Args:
            first: the first step; where steps repeat, a time.
            steps: number of steps.
            stop: returns whether to give up, and to return less.
        """
        counts, parts, keys, waiting = [0], [], [], 0
        for step in range(first, first + steps):
            if self._num_steps is not None and step >= self._num_steps:
                if not self._repeats:
                    break
                step %= self._num_steps
            count = 0
            for schedule in self._schedules:
                positions, _ = schedule.positions(step)
                parts.append(positions)
                count += len(positions)
            counts.append(count)
            waiting += count
            if waiting >= _TOGETHER:
                keys.append(self._visit(parts))
                parts, waiting = [], 0
                if stop():
                    break
        keys.append(self._visit(parts))
        return Uses(first, np.cumsum(counts), np.concatenate(keys))

    def _visit(self, parts: list[Int64]) -> Int64:
        if not parts:
            return np.empty(0, np.int64)
        return self._sampler.visits(np.concatenate(parts)).record_key


def foresees(sampler: Sampler) -> bool:
    """Return whether a sampler says at any time, and fast, what comes at any position.

    Those of other libraries do not: they are asked item by item, or iterated.
    """
    return sampler.addressable and not isinstance(sampler, GrainSampler | RecordedSampler)


def shards_of_machine(shard: ShardOptions) -> range:
    """Return the shards that the processes of this machine read, by their launcher's variables.

    Launchers number the processes of a machine one after the other. Where the variables contradict
    this, or do not tell, it is the process's own shard alone.
    """
    own, rank, count = shard.shard_index, local_rank(), local_world_size()
    first = own - rank
    if rank >= count or first < 0 or first + count > shard.shard_count:
        return range(own, own + 1)
    return range(first, first + count)
