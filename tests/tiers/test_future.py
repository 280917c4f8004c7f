"""The order of use, and when each record comes next in it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gpufeed import (
    GrainSampler,
    IndexSampler,
    RecordedSampler,
    Sampler,
    SequentialSampler,
    ShardOptions,
    WeightedSampler,
)
from gpufeed.order.schedule import LastBatch, Schedule
from gpufeed.tiers.future import Future, foresee
from gpufeed.tiers.order import Order, foresees, shards_of_machine

COUNT = 37
SAMPLERS: dict[str, Sampler] = {
    "shuffled": IndexSampler(COUNT, shuffle=True, seed=4, num_epochs=5),
    "repeated": WeightedSampler(np.arange(COUNT) % 5, seed=1, num_epochs=5),
    "short": IndexSampler(COUNT, shuffle=True, epoch_size=20, num_epochs=5),
}


def schedule(sampler: Sampler, shards: int, last_batch: LastBatch = "drop") -> Schedule:
    return Schedule(sampler.epoch_size, sampler.num_epochs, 3, ShardOptions(0, shards), last_batch)


@pytest.mark.parametrize("last_batch", ["drop", "pad", "partial"])
@pytest.mark.parametrize("shards", [range(1), range(3), range(1, 3)])
@pytest.mark.parametrize("kind", SAMPLERS)
def test_uses_and_ranks_are_those_of_the_schedule(
    kind: str, shards: range, last_batch: LastBatch
) -> None:
    sampler = SAMPLERS[kind]
    plan = schedule(sampler, 3, last_batch)
    assert plan.num_steps is not None
    read = [
        [
            key
            for shard in shards
            for key in sampler.visits(
                plan.of_shard(ShardOptions(shard, 3)).positions(step)[0]
            ).record_key.tolist()
        ]
        for step in range(plan.num_steps)
    ]
    order = Order(sampler, plan, shards)
    uses = order.uses(0, plan.num_steps + 9)
    pairs = itertools.pairwise(uses.starts.tolist())
    assert [uses.keys[start:stop].tolist() for start, stop in pairs] == read

    first, steps = 1, 4
    future = Future(COUNT)
    future.enter(foresee(order.uses, first, steps, COUNT))

    def following(key: int, after: int) -> int | None:
        known = range(after + 1, min(first + 2 * steps, len(read)))
        return next((step for step in known if key in read[step]), None)

    for step in range(first, first + steps):
        for key in range(COUNT):
            expected = following(key, step)
            rank = future.rank_after(key, step)
            assert rank == expected - first if expected is not None else rank > 1 << 31
        future.end(step)
        # Of those that are not read again, the last that was read ranks lowest.
        for key in range(COUNT):
            assert future.rank[key] == future.rank_after(key, step)
    unknown = [key for key in range(COUNT) if following(key, first + steps - 1) is None]
    passed = range(first, first + steps)
    last = {key: max((step for step in passed if key in read[step]), default=0) for key in unknown}
    by_rank = sorted(unknown, key=lambda key: -int(future.rank[key]))
    assert [last[key] for key in by_rank] == sorted(last.values())


def test_steps_that_repeat_have_no_end() -> None:
    sampler = SequentialSampler(8, num_epochs=1)
    order = Order(sampler, Schedule(8, 1, 4, ShardOptions(), "drop"), range(1), repeats=True)
    assert order.uses(1, 3).keys.tolist() == [4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7]
    assert [order.time(step, now) for step, now in ((0, 0), (1, 0), (0, 1), (0, 7), (1, 7))] == [
        *(0, 1, 2, 8, 7)
    ]
    eight = Order(sampler, Schedule(8, 1, 1, ShardOptions(), "drop"), range(1), repeats=True)
    # The next turn of a step, or the one that has just been.
    assert [eight.time(step, 24) for step in range(8)] == [24, 25, 26, 27, 28, 21, 22, 23]


def test_samplers_of_other_libraries_are_not_asked_ahead() -> None:
    class Items:
        record_key = 0

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Items:
            return self

    assert foresees(SAMPLERS["repeated"])
    assert not foresees(RecordedSampler(range(4), 4))
    assert not foresees(GrainSampler(Items(), 4))


def test_a_machine_reads_the_shards_of_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_STEP_TASKS_PER_NODE"):
        monkeypatch.delenv(name, raising=False)
    assert shards_of_machine(ShardOptions(5, 8)) == range(5, 6)
    monkeypatch.setenv("LOCAL_RANK", "1")  # as Lightning does, which does not say of how many
    assert shards_of_machine(ShardOptions(5, 8)) == range(5, 6)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert shards_of_machine(ShardOptions(5, 8)) == range(4, 8)
    # The variables are not about these shards.
    assert shards_of_machine(ShardOptions(0, 2)) == range(1)
    assert shards_of_machine(ShardOptions(7, 8)) == range(7, 8)
