"""Samplers, shards and the schedule: who is read when, and by whom."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed import ConfigError, IndexSampler, SequentialSampler, ShardOptions, StateError
from gpufeed.order.schedule import MAX_EPOCHS, LastBatch, Schedule

# ------------------------------------------------------------------- samplers


def test_a_finite_sampler_is_a_sequence() -> None:
    sampler = IndexSampler(4, shuffle=True, seed=3, num_epochs=2)
    assert len(sampler) == 8
    assert [record.index for record in sampler] == list(range(8))
    with pytest.raises(IndexError, match="position 8 is not in the sampler's order"):
        sampler[8]
    with pytest.raises(IndexError, match="positions 5 to 9 are not all in the sampler's order"):
        sampler.keys(5, 9)
    with pytest.raises(IndexError, match="position -1"):
        sampler[-1]


def test_an_endless_sampler_goes_on() -> None:
    assert IndexSampler(4)[10**12].epoch == 10**12 // 4


def test_shuffling_is_off_by_default_as_in_grain() -> None:
    assert IndexSampler(5).keys(0, 10).tolist() == [0, 1, 2, 3, 4] * 2


def test_a_records_generator_is_its_own() -> None:
    sampler = IndexSampler(50, shuffle=True, seed=9)
    numbers = [sampler[index].rng.random() for index in range(100)]
    assert len(set(numbers)) == 100
    assert sampler[17].rng.random() == numbers[17]
    # The same record in the same epoch, wherever a sampler with that seed puts it.
    plain = SequentialSampler(50, seed=9)
    assert plain[sampler[17].record_key].rng.random() == numbers[17]


def test_large_seeds_have_generators_of_their_own() -> None:
    seeds = [2**63 - 1, 2**63, 2**63 + 1, 2**64 - 500, 2**64 - 1]
    assert len({SequentialSampler(5, seed=seed)[2].rng.random() for seed in seeds}) == len(seeds)


# --------------------------------------------------------------------- shards


@pytest.mark.parametrize(
    ("index", "count", "message"),
    [
        (0, 0, "shard_count is 0; it must be at least 1"),
        (-1, 2, "shard_index is -1; with shard_count=2 it must be from 0 to 1"),
        (2, 2, "shard_index is 2; with shard_count=2 it must be from 0 to 1"),
        (0.0, 2, "shard_index is 0.0; it must be an integer"),
    ],
)
def test_bad_shards_are_named(index: int, count: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ShardOptions(index, count)


# ------------------------------------------------------------------- schedule


def schedule(
    size: int,
    batch: int,
    shard: tuple[int, int] = (0, 1),
    last: LastBatch = "drop",
    epochs: int | None = None,
) -> Schedule:
    return Schedule(size, epochs, batch, ShardOptions(*shard), last)


def taken(plan: Schedule, step: int) -> list[int]:
    positions, valid = plan.positions(step)
    return positions[valid].tolist()


@given(
    size=st.integers(1, 80),
    shards=st.integers(1, 5),
    batch=st.integers(1, 12),
    last=st.sampled_from(["drop", "pad", "partial"]),
    epoch=st.integers(0, 3),
)
def test_shards_share_an_epoch_out(
    size: int, shards: int, batch: int, last: LastBatch, epoch: int
) -> None:
    """Together and step by step, shards read the epoch in order: all of it, or whole batches."""
    try:
        plans = [schedule(size, batch, (index, shards), last) for index in range(shards)]
    except ConfigError:
        assert size < batch * shards
        return
    steps = plans[0].steps_of(epoch)
    read = [position for step in steps for plan in plans for position in taken(plan, step)]
    whole = size // (batch * shards) * batch * shards if last == "drop" else size
    assert read == list(range(epoch * size, epoch * size + whole))
    assert plans[0].dropped(epoch) == size - whole
    for plan, step in itertools.product(plans, steps):
        length = len(plan.positions(step)[0])
        assert length == batch if last != "partial" else length <= batch


@given(
    size=st.integers(12, 200), world=st.sampled_from([1, 2, 3, 4, 6, 12]), step=st.integers(0, 40)
)
def test_one_global_batch_is_the_same_at_any_number_of_shards(
    size: int, world: int, step: int
) -> None:
    alone = taken(schedule(size, 12), step)
    shared = [
        position
        for index in range(world)
        for position in taken(schedule(size, 12 // world, (index, world)), step)
    ]
    assert shared == alone


@given(
    size=st.integers(1, 60),
    batch=st.integers(1, 9),
    last=st.sampled_from(["drop", "pad", "partial"]),
    step=st.integers(0, 50),
)
def test_a_step_is_found_again_by_its_position(
    size: int, batch: int, last: LastBatch, step: int
) -> None:
    if last == "drop" and size < batch:
        return
    plan = schedule(size, batch, last=last)
    assert plan.step_at(plan.records_before(step)) == step


def test_padding_repeats_the_last_record_and_says_so() -> None:
    positions, valid = schedule(10, 4, last="pad").positions(2)
    assert positions.tolist() == [8, 9, 9, 9]
    assert valid.tolist() == [True, True, False, False]
    far, none = schedule(10, 4, (1, 2), "pad").positions(1)
    assert far.tolist() == [9] * 4
    assert not none.any()


def test_a_position_between_batches_is_an_error() -> None:
    with pytest.raises(StateError, match=r"no batch starts after 6 records.*global batch, 4 x 1"):
        schedule(20, 4).step_at(6)


def test_a_position_in_a_tail_that_is_dropped_is_an_error() -> None:
    plan = schedule(50, 8)
    assert [plan.step_at(records) for records in (40, 48, 50)] == [5, 6, 6]
    with pytest.raises(StateError, match="no batch starts after 49 records"):
        plan.step_at(49)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 8), "an epoch of 5 records has no full batch of 8 x 1 shard"),
        ((5, 0), "batch_size is 0; it must be an integer of 1 or more"),
        ((5, 3, (0, 1), "keep"), 'last_batch is \'keep\'; it must be "drop", "pad" or "partial"'),
        ((5, 3, (2, 3), "partial"), "shard 2 of 3 would never get a record"),
        ((6, 3, (0, 3), "partial"), "shard 2 of 3 would never get a record"),
    ],
)
def test_bad_schedules_are_named(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        schedule(*arguments)


def test_there_is_no_batch_past_the_end() -> None:
    plan = schedule(10, 4, epochs=2)
    with pytest.raises(IndexError, match="there is no batch 4: the last is 3"):
        plan.positions(4)
    with pytest.raises(IndexError, match="there is no batch -1"):
        plan.positions(-1)
    endless = schedule(10, 4)
    assert endless.positions(2 * MAX_EPOCHS - 1)[0][0] == 10 * MAX_EPOCHS - 6
    with pytest.raises(IndexError, match="epochs end at number 4294967295"):
        endless.positions(2 * MAX_EPOCHS)
