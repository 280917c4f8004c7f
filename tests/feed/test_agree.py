"""Processes that were given different things say so, all of them, and name what differs."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed import ConfigError, ShardOptions
from gpufeed.feed import agree
from gpufeed.feed.agree import Agreement, disagreement, meet

IDENTITY = {"kind": "IndexSampler", "seed": 0, "shuffle": True}
VALUES: dict[str, Any] = {
    "sampler IndexSampler.seed": [0, 1, 2, 3],
    "transforms[0][1] Normalize.dtype": ['"float32"', '"float16"', '"bfloat16"'],
    "transforms[0][10] Flip.p": [0.5, 0.25],
    "manifest": ["9 records, fingerprint ab", "9 records, fingerprint cd"],
    "batch_size": [8, 16, 4],
    "restart": [False, True],
}


def facts(values: dict[str, Any]) -> dict[str, Any]:
    """What a process sends, with these values of the settings that may differ."""
    seed, dtype, flip, *others = values.values()
    plain = [{"kind": "Plain", "at": place} for place in range(9)]
    chain = [{"kind": "Crop"}, {"kind": "Normalize", "dtype": json.loads(dtype)}, *plain[:8]]
    return {
        "sampler": {**IDENTITY, "seed": seed},
        "transforms": [[*chain, {"kind": "Flip", "p": flip}]],
        **dict(zip(list(values)[3:], others, strict=True)),
    }


@st.composite
def given_things(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(1, 6))
    by_name = {
        name: draw(st.lists(st.sampled_from(each), min_size=count, max_size=count))
        for name, each in VALUES.items()
    }
    return [{name: each[rank] for name, each in by_name.items()} for rank in range(count)]


def ranks_in(text: str) -> set[int]:
    found = re.search(r" on ranks? ([\d and-]+)$", text)
    assert found
    ranges = [each.split("-") for each in found[1].split(" and ")]
    return {rank for ends in ranges for rank in range(int(ends[0]), int(ends[-1]) + 1)}


@given(given_things())
def test_what_differs_is_named_with_all_values_and_ranks(things: list[dict[str, Any]]) -> None:
    message = disagreement({rank: (facts(each), rank) for rank, each in enumerate(things)})
    differing = {name for name in VALUES if len({str(each[name]) for each in things}) > 1}
    assert bool(message) == bool(differing)
    named = message.partition("different things: ")[2].partition(". Together")[0]
    told = dict(each.split(": ", 1) for each in named.split("; ")) if named else {}
    assert set(told) == differing
    for name, text in told.items():
        # A value may have a comma of its own.
        parts = re.split(r", (?=\S+(?: records, \S+ \S+)? on rank)", text.partition(", and ")[0])
        of_rank = {rank: part for part in parts for rank in ranks_in(part)}
        for rank, thing in enumerate(things):
            value = str(thing[name]).strip('"')
            value = value.lower() if name == "restart" else value
            if rank in of_rank:
                assert of_rank[rank].startswith(f"{value} on rank")
            else:
                assert "and 1 other values" in text
        assert len(of_rank) == len(things) or len({str(each[name]) for each in things}) > 3


def test_long_values_are_shown_where_they_differ() -> None:
    long = [["x" * 150, "y" * 150, name] for name in ("this", "that")]
    message = disagreement({rank: ({"transforms": each}, None) for rank, each in enumerate(long)})
    assert re.search(
        r"transforms: \.\.\.y{35}\",\"this\"\] on rank 0, \.\.\.y{35}\",\"that", message
    )
    assert len(message) < 800


def test_a_whole_and_a_part_that_differ_are_both_named() -> None:
    samplers = [IDENTITY, {**IDENTITY, "seed": 5}, {"kind": "WeightedSampler"}, IDENTITY]
    message = disagreement({rank: ({"sampler": each}, None) for rank, each in enumerate(samplers)})
    assert "sampler IndexSampler.seed: 0 on ranks 0 and 3, 5 on rank 1; sampler: {" in message
    assert '} on ranks 0 and 3, {"kind":"WeightedSampler"} on rank 2. Together' in message


@pytest.mark.parametrize(
    ("shards", "said"),
    [
        ([0, 1, 2], ""),
        ([2, 0, 1], ""),
        ([None, None, None], ""),
        ([0, 1, 0], "shard 0 is read by ranks 0 and 2"),
        ([1, 1, 1], "shard 1 is read by ranks 0-2"),
    ],
)
def test_each_shard_is_read_once(shards: list[int | None], said: str) -> None:
    message = disagreement(
        {rank: ({"last_batch": "pad"}, each) for rank, each in enumerate(shards)}
    )
    assert said in message
    assert bool(said) == bool(message)


# ------------------------------------------------------------------------ meeting


class Group:
    """A process of a group whose store is a dict."""

    name = "threads"
    has_store = True

    def __init__(self, rank: int, size: int, store: dict[str, str]) -> None:
        self.rank, self.size = rank, size
        self.store = store

    def put(self, folder: str, text: str) -> None:
        self.store[f"{folder}/{self.rank}"] = text

    def read(self, folder: str, ranks: Collection[int]) -> dict[int, str]:
        stored = {rank: self.store.get(f"{folder}/{rank}") for rank in ranks}
        return {rank: text for rank, text in stored.items() if text is not None}


@pytest.mark.parametrize("ranks", [[0, 1], [0, 1, 2, 3], [1, 3]])
def test_all_hear_the_same(ranks: list[int]) -> None:
    store: dict[str, str] = {}

    def one(rank: int) -> list[str]:
        group = Group(rank, 4, store)
        return [
            meet(group, ranks, f"a/{turn}", [rank, turn], lambda given: str(sorted(given.items())))
            for turn in range(20)
        ]

    with ThreadPoolExecutor(len(ranks)) as pool:
        heard = list(pool.map(one, ranks))
    assert heard == [[str([(r, [r, turn]) for r in ranks]) for turn in range(20)]] * len(ranks)


def test_a_process_that_does_not_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agree, "PATIENCE", 0.2)
    monkeypatch.setattr(agree, "TOLD_AFTER", 0.0)
    store = {"a/1": "[]"}
    waiting = r"rank 0 of threads has waited \d s for ranks 2-3 to ask for a first batch"
    with (
        pytest.warns(UserWarning, match=waiting) as caught,
        pytest.raises(ConfigError, match=waiting),
    ):
        meet(Group(0, 4, store), range(4), "a", [], lambda _: "")
    assert len(caught) == 1


def test_an_interrupted_wait_goes_on_in_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process has not moved on meanwhile."""

    class Interrupted(Group):
        asked = 0

        def read(self, folder: str, ranks: Collection[int]) -> dict[int, str]:  # noqa: ARG002
            self.asked += 1
            if self.asked == 1:
                raise KeyboardInterrupt
            return dict.fromkeys(ranks, "")

    store: dict[str, str] = {}
    group = Interrupted(1, 2, store)
    monkeypatch.setattr(agree, "process_groups", lambda: iter([group]))
    agreement = Agreement(None, 1)
    with pytest.raises(KeyboardInterrupt):
        agreement.reach(ShardOptions(1, 2), dict)
    agreement.reach(ShardOptions(1, 2), dict)
    assert len(store) == 2  # what it was given, and that it read the verdict
    agreement.reach(ShardOptions(1, 2), dict)
    assert len(store) == 2
    agreement.renew()
    agreement.reach(ShardOptions(1, 2), dict)
    assert len(store) == 4


@pytest.mark.parametrize("shard", [ShardOptions(), ShardOptions(1, 3), ShardOptions(2, 5)])
def test_a_loader_that_not_all_processes_may_have_asks_none(
    shard: ShardOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that reads all records in this process, or replicas of which each has several."""
    group = Group(0, 4, {})
    monkeypatch.setattr(agree, "process_groups", lambda: iter([group]))
    Agreement(None, 1).reach(shard, dict)
    assert not group.store
