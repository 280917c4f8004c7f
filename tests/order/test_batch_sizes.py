"""A schedule of batch sizes, against a plain loop that cuts the order batch by batch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpufeed import ConfigError, IndexSampler, Loader, Manifest, ShardOptions, StateError
from gpufeed import transforms as tf
from gpufeed.order.schedule import LastBatch, Schedule

LAST = st.sampled_from(["drop", "pad", "partial"])
SIZES = st.dictionaries(st.integers(1, 30), st.integers(1, 9), max_size=4)


def cut(
    size: int, sizes: dict[int, int], shards: int, last: LastBatch
) -> Iterator[tuple[int, ...]]:
    """Yield the epoch, first and last position of each global batch, and its size per shard."""
    epoch = within = 0
    for step in itertools.count():
        now = max(first for first in sizes if first <= step)
        wanted = sizes[now] * shards
        left = size - within
        if left == 0 or (last == "drop" and left < wanted):
            epoch, within = epoch + 1, 0
        stop = min(within + wanted, size)
        yield epoch, within, stop, sizes[now]
        within = stop


@given(
    size=st.integers(1, 60),
    first=st.integers(1, 9),
    more=SIZES,
    shards=st.integers(1, 3),
    last=LAST,
)
def test_batches_are_those_of_a_plain_loop(
    size: int, first: int, more: dict[int, int], shards: int, last: LastBatch
) -> None:
    sizes = {0: first, **more}
    try:
        plans = [
            Schedule(size, None, sizes, ShardOptions(index, shards), last)
            for index in range(shards)
        ]
    except ConfigError:
        largest = max(sizes.values())
        assert largest * shards > size if last == "drop" else largest * (shards - 1) >= size
        return
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for step, (epoch, start, stop, now) in enumerate(
        itertools.islice(cut(size, sizes, shards, last), 60)
    ):
        starts.setdefault(epoch, step)
        ends[epoch] = stop
        read = []
        for plan in plans:
            positions, valid = plan.positions(step)
            assert last == "partial" or len(positions) == now
            read += positions[valid].tolist()
            assert plan.epoch_of(step) == epoch
            assert plan.records_before(step) == epoch * size + start
            assert plan.step_at(epoch * size + start) == step
        assert read == [epoch * size + position for position in range(start, stop)]
    for epoch, step in starts.items():
        assert plans[0].first_step(epoch) == step
        if epoch < max(starts):  # it has ended
            assert plans[0].dropped(epoch) == size - ends[epoch]
    assert Schedule(
        size, len(starts) - 1, sizes, ShardOptions(0, shards), last
    ).num_steps == step_of(starts)


def step_of(starts: dict[int, int]) -> int:
    return starts[max(starts)]


@given(size=st.integers(12, 90), more=SIZES, last=LAST, world=st.sampled_from([2, 3, 6]))
def test_global_batches_are_the_same_at_any_number_of_shards(
    size: int, more: dict[int, int], last: LastBatch, world: int
) -> None:
    sizes = {0: 6, **{step: 6 * each for step, each in more.items()}}
    assume(max(sizes.values()) <= size)
    parts = {step: each // world for step, each in sizes.items()}
    alone = Schedule(size, None, sizes, ShardOptions(), last)
    shards = [Schedule(size, None, parts, ShardOptions(r, world), last) for r in range(world)]
    for step in range(40):
        whole, valid = alone.positions(step)
        read = [plan.positions(step) for plan in shards]
        assert np.concatenate([p[v] for p, v in read]).tolist() == whole[valid].tolist()


@pytest.mark.parametrize(
    ("batch_size", "message"),
    [
        ({}, "from step 0 on"),
        ({1: 4}, "from step 0 on"),
        ({0: 4, -1: 4}, "from step 0 on"),
        ({0: 4, 2: "8"}, r"batch_size is {0: 4, 2: '8'}; it must be an integer, or map steps"),
        ({0: 4, 2: 0}, "it must be an integer of 1 or more"),
        ({0: 4, 2: 99}, r"has no full batch of 99 x 1 shard\(s\)"),
    ],
)
def test_what_is_no_schedule_is_named(batch_size: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Schedule(50, None, batch_size, ShardOptions(), "drop")


# ------------------------------------------------------------------- in a loader


def make(manifest: Manifest, **options: Any) -> Loader:
    settings: dict[str, Any] = {
        "sampler": IndexSampler(len(manifest), shuffle=True, seed=3),
        "transforms": [tf.RandomResizedCrop(8), tf.MixUp(0.5, group=2)],
        "batch_size": {0: 4, 5: 8, 11: 6},
        "last_batch": "pad",
        "device": "cpu",
        "num_threads": 1,
    }
    return Loader(manifest, **(settings | options))


def arrays(batch: dict[str, Any]) -> list[bytes]:
    return [np.ascontiguousarray(batch[name]).tobytes() for name in ("record_key", "image", "lam")]


def test_a_loader_follows_the_schedule(pictures: Manifest) -> None:
    with make(pictures, ledger=True) as loader, make(pictures) as other:
        fed, states, lengths = [], [], []
        for _ in range(3):
            lengths.append(len(loader))
            for batch in loader:
                fed.append(arrays(batch))
                states.append(loader.state_dict())
        assert [len(each[0]) // 8 for each in fed[:12]] == [4] * 5 + [8] * 6 + [6]
        assert sum(lengths) == len(fed)
        assert loader.ledger is not None
        assert all(loader.ledger.report(epoch).right for epoch in range(3))
        for step in (0, 4, 5, 10, 11, len(fed) - 1):
            assert arrays(other.batch(step)) == fed[step]
        for step in (2, 4, 5, 10, 12):
            other.load_state_dict(states[step])
            assert other.step == step + 1
            assert arrays(next(iter(other))) == fed[step + 1]
        halves = [
            make(
                pictures,
                batch_size={0: 2, 5: 4, 11: 3},
                transforms=[tf.RandomResizedCrop(8)],
                shard=ShardOptions(r, 2),
            )
            for r in range(2)
        ]
        for half in halves:
            half.load_state_dict(states[6], ignore=["transforms"])
            assert half.step == 7
        keys = [next(iter(half))["record_key"] for half in halves]
        assert np.concatenate(keys).tobytes() == fed[7][0]
        for half in halves:
            half.close()


def test_what_does_not_fit_every_size_is_refused(pictures: Manifest) -> None:
    with pytest.raises(
        ConfigError, match="batch_size is 7; it must be a multiple of 2, the groups"
    ):
        make(pictures, batch_size={0: 4, 5: 7})
    with pytest.raises(ConfigError, match='for a ledger use last_batch="pad" or "partial"'):
        make(pictures, last_batch="drop", ledger=True)
    with make(pictures) as loader:
        loader.seek(7)
        state = loader.state_dict()
    with make(pictures, batch_size=16) as other, pytest.raises(StateError, match="no batch starts"):
        other.load_state_dict(state)
