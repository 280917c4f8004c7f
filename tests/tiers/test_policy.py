"""What is given up is what is used farthest in the future, which is the best that can be done."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.storage.bound import fewest_misses
from benchmarks.storage.simulate import listed
from gpufeed.tiers import policy
from gpufeed.tiers.future import Block, Future, foresee
from gpufeed.tiers.policy import Kept

RECORDS = 8


def misses(keys: Sequence[int], room: int, *, steps: int | None, records: int = RECORDS) -> int:
    """Feed an order through a tier; with `steps` None, without a known future."""
    future, order, found = Future(records), listed(np.array(keys, np.int64)), 0
    kept = Kept(future)
    for step, key in enumerate(keys):
        if steps is not None and step % steps == 0:
            future.enter(foresee(order, step, steps, records))
        kept.moved(future.touch(np.array([key])))
        if not kept.sizes[key]:
            found += 1
            given_up = kept.victims(future.rank_after(key, step), kept.total + 1 - room)
            if given_up is not None:
                for each in given_up:
                    kept.put(each, 0)
                if room:
                    kept.put(key, 1)
        kept.moved(future.end(step))
        assert kept.total == np.count_nonzero(kept.sizes) <= room
    return found


def fewest_by_search(keys: Sequence[int], room: int) -> int:
    """Try all that a cache could keep after each use."""

    @functools.cache
    def search(place: int, kept: frozenset[int]) -> int:
        if place == len(keys):
            return 0
        key = keys[place]
        if key in kept:
            return search(place + 1, kept)
        choices = [kept]  # which leaves the image out
        if len(kept) < room:
            choices.append(kept | {key})
        elif room:
            choices += [kept - {other} | {key} for other in kept]
        return 1 + min(search(place + 1, choice) for choice in choices)

    return search(0, frozenset())


def least_recently_used(keys: Sequence[int], room: int) -> int:
    kept: OrderedDict[int, None] = OrderedDict()
    found = 0
    for key in keys:
        if key in kept:
            kept.move_to_end(key)
            continue
        found += 1
        kept[key] = None
        while len(kept) > room:
            kept.popitem(last=False)
    return found


orders = st.lists(st.integers(0, RECORDS - 1), min_size=1, max_size=24)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(0, 4))
def test_the_two_references_agree(keys: list[int], room: int) -> None:
    assert fewest_misses(keys, room) == fewest_by_search(keys, room)


@settings(max_examples=300, deadline=None)
@given(orders, st.integers(0, RECORDS))
def test_nothing_misses_less(keys: list[int], room: int) -> None:
    assert misses(keys, room, steps=len(keys)) == fewest_misses(keys, room)


@settings(max_examples=200, deadline=None)
@given(orders, st.integers(0, RECORDS), st.integers(1, 24))
def test_a_short_future_is_no_worse_than_nothing_kept(
    keys: list[int], room: int, steps: int
) -> None:
    best = fewest_misses(keys, room)
    assert best <= misses(keys, room, steps=steps) <= len(keys)


@settings(max_examples=200, deadline=None)
@given(orders, st.integers(0, RECORDS))
def test_without_a_future_it_is_least_recently_used(keys: list[int], room: int) -> None:
    assert misses(keys, room, steps=None) == least_recently_used(keys, room)


@pytest.mark.parametrize("room", [3, 40, 150])
def test_it_is_optimal_where_only_a_part_is_sorted_at_a_time(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "_LEAST", 2)
    rng = np.random.default_rng(0)
    keys = np.concatenate([rng.permutation(200) for _ in range(6)]).tolist()
    known = misses(keys, room, steps=len(keys), records=200)
    assert known == fewest_misses(keys, room)
    # In epochs of a known length, this one and the next are all that matters.
    assert misses(keys, room, steps=200, records=200) == known
    lru = misses(keys, room, steps=None, records=200)
    assert lru == least_recently_used(keys, room)
    assert known < lru


def test_memory_does_not_grow_while_nothing_is_given_up() -> None:
    future = Future(RECORDS)
    kept = Kept(future)
    for key in range(RECORDS):
        kept.put(key, 1)
    for full in (False, True):
        for _ in range(3_000):
            kept.moved(future.touch(np.arange(RECORDS)))
        assert len(kept._heap) < 5 * policy._LEAST
        assert kept.victims(0, int(full)) == [*range(RECORDS - 1, RECORDS - 1 - full, -1)]


@pytest.mark.parametrize(
    ("rank", "needed", "victims"),
    [
        (6, 15, [1, 2]),
        (6, 25, None),
        (0, 25, [1, 2, 0]),
        (0, 31, None),
        (9, 1, None),
        (0, 0, []),
    ],
)
def test_a_large_image_takes_the_place_of_several_or_of_none(
    rank: int, needed: int, victims: list[int] | None
) -> None:
    future = Future(4)
    ranks, none = np.array([5, 9, 7, 1], np.uint32), np.empty(0, np.uint32)
    future.enter(Block(0, 1, np.array([0]), none, none, ranks))
    kept = Kept(future)
    for key in range(3):
        kept.put(key, 10)
    assert kept.victims(rank, needed) == victims
    assert kept.total == 30
