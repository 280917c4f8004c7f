"""How far a run's future is known: blocks of steps, each computed in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gpufeed.order.sampler import Sampler
from gpufeed.order.schedule import Schedule
from gpufeed.order.shard import ShardOptions
from gpufeed.tiers.future import Block, Future, foresee
from gpufeed.tiers.order import BACK, Order, foresees, shards_of_machine

__all__ = ["Horizon"]


class Horizon:
    """Follows a run step by step, and keeps a `Future` informed of what comes.

    In a block's steps this machine reads as many records as there are. The future is known for one
    to two such blocks.

    Args:
        sampler: the order.
        schedule: divides it, also if its shard changes later.
        future: what is told.
        repeats: whether each pass is the same, as in a loader with `restart`.
        delay: steps that may still be read when the next has begun.
    """

    def __init__(
        self, sampler: Sampler, schedule: Schedule, future: Future, *, repeats: bool, delay: int
    ) -> None:
        self.future = future
        self._sampler, self._schedule, self._repeats = sampler, schedule, repeats
        self._delay = delay
        self._foresees = foresees(sampler)
        self._shard: ShardOptions | None = None
        self._own: tuple[ShardOptions, Order] | None = None
        self._time = 0
        self._computing: threading.Thread | None = None
        self._computed: tuple[Order, Block] | None = None
        self._stopped = False

    def order(self) -> Order | None:
        """Return what this process reads; None if it is not known ahead."""
        shard = self._schedule.shard
        if self._own is None or self._own[0] != shard:
            self._own = shard, self._of(range(shard.shard_index, shard.shard_index + 1))
        return self._own[1] if self._foresees else None

    def _of(self, shards: range) -> Order:
        return Order(self._sampler, self._schedule, shards, repeats=self._repeats)

    def begin(self, step: int) -> npt.NDArray[np.int64]:
        """Note that a step is about to be read; return the records whose rank has changed."""
        if not self._foresees:
            return np.empty(0, np.int64)
        if self._shard != self._schedule.shard:
            self._shard = self._schedule.shard
            self._order = self._of(shards_of_machine(self._shard))
            self.future.forget()
            self._drop()
        order, future = self._order, self.future
        time = order.time(step, self._time)
        if time < self._time - BACK:
            future.forget()
            self._drop()
            self._time = time
        self._time = max(self._time, time)
        if self._computed is not None:
            of, computed = self._computed
            if of is not order or computed.first <= self._time:
                self._computed = None
                if of is order and self._time < computed.first + computed.steps:
                    future.enter(computed)
        block = future.block
        if block is not None and self._time >= block.first + block.steps:
            future.forget()
            block = None
        if block is None:
            self._compute(self._time)
        elif self._time >= block.first + block.steps // 2:
            self._compute(block.first + block.steps)
        return future.end(self._time - self._delay)

    def rank(self, key: int) -> int:
        """Return the rank that a record has once all steps that have begun are read."""
        return self.future.rank_after(key, self._time)

    def stop(self) -> None:
        """Give up what is being computed."""
        self._stopped = True
        self._drop()

    def wait(self) -> None:
        """Wait for what is being computed."""
        if self._computing is not None:
            self._computing.join()

    def _drop(self) -> None:
        self._computing = self._computed = None

    def _compute(self, first: int) -> None:
        if self._computing is not None or self._computed is not None or self._stopped:
            return
        order, num_records = self._order, len(self.future.rank)
        steps = order.steps_for(num_records)
        stopped: Callable[[], bool] = lambda: self._computing is not thread  # noqa: E731

        def compute() -> None:
            # A sampler of the user's own may fail: a loader then says so when it gets there.
            try:
                block = foresee(
                    lambda start, count: order.uses(start, count, stopped),
                    first,
                    steps,
                    num_records,
                )
            except Exception:
                return
            if not stopped():
                self._computed, self._computing = (order, block), None

        thread = threading.Thread(None, compute, "gpufeed-future", daemon=True)
        self._computing = thread
        try:
            thread.start()
        except RuntimeError:  # the system allows no more threads
            compute()
