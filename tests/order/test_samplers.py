"""Every sampler: what comes where, how often, and with which random numbers."""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grain.python as grain
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
import torch
import torch.utils.data
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gpufeed
from gpufeed import (
    ClassBalancedBatchSampler,
    ConfigError,
    GrainSampler,
    IndexSampler,
    Loader,
    Manifest,
    MixtureSampler,
    NodeLocalSampler,
    RecordedSampler,
    RepeatedAugmentationSampler,
    Sampler,
    SequentialSampler,
    StateError,
    SubsetSampler,
    WeightedSampler,
    balanced_weights,
    concat,
)
from gpufeed._util.identity import LISTED, encode, is_digest, listed
from gpufeed.rng import BatchRng
from gpufeed.tools.rebuild import SAMPLERS, rebuild_sampler
from tests.support.media import make_manifest

Int64 = npt.NDArray[np.int64]


def node_local(draw: st.DrawFn, size: int, **common: Any) -> NodeLocalSampler:
    nodes = draw(st.integers(1, min(size, 6)))
    batch = nodes * draw(st.integers(1, 12))
    return NodeLocalSampler(size, nodes=nodes, global_batch=batch, **common)


@st.composite
def samplers(draw: st.DrawFn) -> Sampler:
    """Any sampler, of few records."""
    size = draw(st.integers(1, 60))
    common: dict[str, Any] = {
        "seed": draw(st.integers(0, 2**64 - 1)),
        "num_epochs": draw(st.none() | st.integers(1, 4)),
    }
    virtual = {"epoch_size": draw(st.none() | st.integers(1, 150))}
    labels = np.arange(size) % draw(st.integers(1, 6))
    keys = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=70))
    kinds: list[Callable[[], Sampler]] = [
        lambda: SequentialSampler(size, **common, **virtual),
        lambda: IndexSampler(size, shuffle=draw(st.booleans()), **common, **virtual),
        lambda: SubsetSampler(size, keys, shuffle=draw(st.booleans()), **common, **virtual),
        lambda: WeightedSampler(1.0 + labels, **common, **virtual),
        lambda: WeightedSampler(1.0 + labels, replacement=False, **common),
        lambda: RepeatedAugmentationSampler(
            size, repeats=draw(st.integers(1, 4)), **common, **virtual
        ),
        lambda: ClassBalancedBatchSampler(
            labels,
            classes_per_batch=draw(st.integers(1, len(set(labels)))),
            records_per_class=draw(st.integers(1, 4)),
            **common,
        ),
        lambda: MixtureSampler([size, 7], (3, draw(st.floats(0.01, 90))), **common, **virtual),
        lambda: node_local(draw, size, **common),
    ]
    return draw(st.sampled_from(kinds))()


def epoch_of(sampler: Sampler, epoch: int) -> Int64:
    size = sampler.epoch_size
    return sampler.keys(epoch * size, (epoch + 1) * size)


# ---------------------------------------------------------------- what holds for all of them


@given(samplers(), st.integers(0, 400), st.integers(0, 60))
def test_positions_can_be_asked_for_one_by_one_or_at_once(
    sampler: Sampler, start: int, count: int
) -> None:
    if sampler.num_epochs is not None:
        start = min(start, len(sampler))
        count = min(count, len(sampler) - start)
    keys = sampler.keys(start, start + count)
    assert keys.dtype == np.int64
    assert ((keys >= 0) & (keys < sampler.num_records)).all()
    one_by_one = [sampler[index] for index in range(start, start + count)]
    assert [record.record_key for record in one_by_one] == keys.tolist()
    assert [record.index for record in one_by_one] == list(range(start, start + count))
    epochs = [record.epoch for record in one_by_one]
    assert epochs == [index // sampler.epoch_size for index in range(start, start + count)]


@given(samplers(), st.integers(0, 3))
def test_each_visit_of_an_epoch_draws_its_own_numbers(sampler: Sampler, epoch: int) -> None:
    size = sampler.epoch_size
    visits = sampler.visits(np.arange(epoch * size, (epoch + 1) * size))
    assert visits.epoch.tolist() == [epoch] * size
    assert len(set(visits.draw_key.tolist())) == size
    assert (visits.draw_key >= 0).all()


@pytest.mark.parametrize(
    "sampler",
    [
        SequentialSampler(20, epoch_size=50),
        IndexSampler(20, shuffle=True, epoch_size=50),
        SubsetSampler(20, [3, 3, 9], shuffle=True, epoch_size=50),
        WeightedSampler(np.arange(1, 21), epoch_size=50),
        WeightedSampler(np.arange(1, 21), replacement=False),
        RepeatedAugmentationSampler(20, repeats=3, epoch_size=150),
        ClassBalancedBatchSampler(np.arange(20) % 4, classes_per_batch=2, records_per_class=10),
        MixtureSampler([15, 5], (1, 1), epoch_size=50),
        NodeLocalSampler(20, nodes=3, global_batch=6),
        GrainSampler(grain.SequentialSampler(20), 20),
        RecordedSampler([3, 9, 3, 3], 20),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_each_visit_draws_its_own_numbers_in_every_sampler(sampler: Sampler) -> None:
    """Of each kind one whose records come again, since what is drawn above may be any."""
    visits = sampler.visits(np.arange(sampler.epoch_size))
    assert len(np.unique(visits.draw_key)) == sampler.epoch_size


@given(samplers())
def test_the_global_generator_has_no_say(sampler: Sampler) -> None:
    np.random.seed(0)  # noqa: NPY002 - the global generator is the point
    first = epoch_of(sampler, 0).tolist()
    np.random.seed(1)  # noqa: NPY002
    assert epoch_of(sampler, 0).tolist() == first


@given(samplers())
def test_a_sampler_is_rebuilt_from_its_identity(sampler: Sampler) -> None:
    """From the text that a state holds: the same identity, and the same visits."""
    text = encode(sampler.identity)
    again = rebuild_sampler(text)
    assert encode(again.identity) == text
    assert type(again) is type(sampler)
    positions = np.arange(3 * sampler.epoch_size)
    for ours, theirs in zip(again.visits(positions), sampler.visits(positions), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (again.group, again.has_repeats) == (sampler.group, sampler.has_repeats)
    assert (again.num_records, again.seed) == (sampler.num_records, sampler.seed)


def test_every_sampler_can_be_rebuilt() -> None:
    public = (getattr(gpufeed, name) for name in gpufeed.__all__)
    own = {each for each in public if isinstance(each, type) and issubclass(each, Sampler)}
    assert set(SAMPLERS.values()) == own - {Sampler, GrainSampler, RecordedSampler}


@pytest.mark.parametrize(
    ("identity", "message"),
    [
        ({"kind": "mine.Own", "seed": 3}, "the sampler mine.Own is not one of gpufeed's; use load"),
        (GrainSampler(grain.SequentialSampler(20), 20).identity, "sampler GrainSampler is not one"),
        (RecordedSampler([3, 9], 20).identity, "the sampler RecordedSampler is not one of gpu"),
        ({"kind": "IndexSampler", "size": 3}, "IndexSampler cannot be rebuilt .*'size'"),
        ({"kind": "IndexSampler", "num_records": 0}, "cannot be rebuilt .*: num_records is 0; it"),
        (
            {"kind": "IndexSampler", "num_records": 3},
            r'sampler IndexSampler cannot be rebuilt from its fingerprint: \{"kind":"IndexSampler",'
            r'"num_records":3\} became \{"epoch_size":3',
        ),
        (
            WeightedSampler(np.ones(LISTED + 1)).identity,
            "the state has 1,001 values of its sampler as a digest only, .* 1,000; use loader.batc",
        ),
        ({"seed": 3}, "the state's sampler is '{\"seed\":3}', which has no 'kind'"),
        ([], "the state's sampler is '\\[\\]', which has no 'kind'"),
    ],
)
def test_a_sampler_that_can_not_be_rebuilt_says_why(identity: Any, message: str) -> None:
    with pytest.raises(StateError, match=message):
        rebuild_sampler(encode(identity))
    with pytest.raises(StateError, match="the state's sampler is not valid JSON: Expecting value"):
        rebuild_sampler("IndexSampler(seed=3)")


ARRAYS = hnp.arrays(st.sampled_from(["<i8", ">i4", "<f8", "|u1", "|b1"]), st.integers(0, 30))


@given(ARRAYS)
def test_short_arrays_are_listed(array: npt.NDArray[Any]) -> None:
    told = json.loads(encode(listed(array)))
    np.testing.assert_array_equal(np.array(told, array.dtype), array)


@given(ARRAYS, ARRAYS)
def test_long_arrays_are_told_apart_by_their_digests(
    array: npt.NDArray[Any], other: npt.NDArray[Any]
) -> None:
    first, second = (np.resize(each, LISTED + 1) for each in (array, other))
    told: Any = listed(first)
    assert is_digest(json.loads(encode(told)))
    assert told["count"] == len(first)
    # Byte order, which `resize` does not keep of an empty array, makes no difference.
    one, two = (each.astype(each.dtype.newbyteorder("<")) for each in (first, second))
    same = one.dtype == two.dtype and one.tobytes() == two.tobytes()
    assert (told == listed(second)) == same
    assert told == listed(first.astype(first.dtype.newbyteorder()))
    assert told == listed(np.repeat(first, 2)[::2])  # of any strides


def test_weights_and_keys_are_told_to_the_last_bit() -> None:
    """Rounded weights give the same visits but once in a million."""
    weights = np.random.default_rng(0).random(99) * (np.arange(99) % 3)
    told: Any = json.loads(encode(WeightedSampler(weights, seed=3).identity))["weights"]
    np.testing.assert_array_equal(told, weights)
    keys = np.array([2**40 - 1, 5, 2**33])
    told = SubsetSampler(2**40, keys).identity["record_keys"]
    np.testing.assert_array_equal(told, keys)


@pytest.mark.parametrize(
    "make",
    [
        lambda count: WeightedSampler(np.arange(count) + 1.0),
        lambda count: SubsetSampler(count, np.arange(count)),
        lambda count: ClassBalancedBatchSampler(
            np.arange(count) // 2, classes_per_batch=2, records_per_class=2
        ),
    ],
)
def test_what_a_state_keeps_of_a_sampler_does_not_grow(make: Callable[[int], Sampler]) -> None:
    short, long = make(10 * LISTED), make(100 * LISTED)
    assert len(encode(long.identity)) <= len(encode(short.identity)) + 10 < 400
    assert "100,000 values, SHA-256 " in repr(long)


def far_apart(make: Callable[[int], Sampler]) -> list[list[int]]:
    return [epoch_of(make(seed), epoch).tolist() for seed in range(2) for epoch in range(3)]


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: IndexSampler(200, shuffle=True, seed=seed),
        lambda seed: IndexSampler(200, shuffle=True, seed=seed, epoch_size=90),
        lambda seed: SubsetSampler(200, range(50, 150), shuffle=True, seed=seed),
        lambda seed: WeightedSampler(np.arange(1, 201), seed=seed),
        lambda seed: WeightedSampler(np.arange(1, 201), replacement=False, seed=seed),
        lambda seed: RepeatedAugmentationSampler(200, seed=seed),
        lambda seed: ClassBalancedBatchSampler(
            np.arange(200) % 20, classes_per_batch=5, records_per_class=4, seed=seed
        ),
        lambda seed: MixtureSampler([150, 50], (1, 1), seed=seed),
    ],
)
def test_each_epoch_and_seed_has_an_order_of_its_own(make: Callable[[int], Sampler]) -> None:
    for one, other in itertools.combinations(far_apart(make), 2):
        agreeing = sum(a == b for a, b in zip(one, other, strict=True))
        assert agreeing < 0.1 * len(one)


@pytest.mark.parametrize(
    ("sampler", "other"),
    [
        (IndexSampler(9, shuffle=True), IndexSampler(9)),
        (IndexSampler(9), IndexSampler(9, epoch_size=8)),
        (IndexSampler(9), SequentialSampler(9)),
        (SubsetSampler(9, [2, 5]), SubsetSampler(9, [5, 2])),
        (SubsetSampler(9, [2, 5]), SubsetSampler(9, [2, 6])),
        (SubsetSampler(9, [2, 5]), SubsetSampler(9, [2, 5], epoch_size=3)),
        (WeightedSampler([1, 2]), WeightedSampler([1, 3])),
        (WeightedSampler([1, 2]), WeightedSampler([1, 2], replacement=False)),
        (WeightedSampler([1, 2]), WeightedSampler([1, 2], epoch_size=3)),
        (
            ClassBalancedBatchSampler([0, 1, 1, 0], classes_per_batch=2, records_per_class=1),
            ClassBalancedBatchSampler([0, 1, 0, 1], classes_per_batch=2, records_per_class=1),
        ),
        (
            ClassBalancedBatchSampler([0, 1, 1, 0], classes_per_batch=2, records_per_class=1),
            ClassBalancedBatchSampler([0, 1, 1, 0], classes_per_batch=1, records_per_class=2),
        ),
        (RepeatedAugmentationSampler(9), RepeatedAugmentationSampler(9, repeats=2)),
        (MixtureSampler([5, 4], (1, 1)), MixtureSampler([4, 5], (1, 1))),
        (MixtureSampler([5, 4], (1, 1)), MixtureSampler([5, 4], (1, 2))),
    ],
)
def test_what_decides_the_order_is_in_the_identity(sampler: Sampler, other: Sampler) -> None:
    """Or a run would be resumed in another order, and no one told."""
    assert sampler.identity != other.identity


@pytest.mark.parametrize(
    ("sampler", "repeats"),
    [
        (IndexSampler(9, shuffle=True), False),
        (IndexSampler(9, epoch_size=9), False),
        (IndexSampler(9, shuffle=True, epoch_size=10), True),
        (SequentialSampler(9, epoch_size=10), True),
        (SubsetSampler(9, [4, 2, 7]), False),
        (SubsetSampler(9, [4, 2, 4]), True),
        (SubsetSampler(9, [4, 2], epoch_size=3), True),
        (WeightedSampler([1, 2, 3]), True),
        (WeightedSampler([1, 2, 3], replacement=False), False),
    ],
)
def test_samplers_know_whether_records_repeat(sampler: Sampler, repeats: bool) -> None:
    """What a ledger calls double depends on it."""
    assert sampler.has_repeats == repeats


@pytest.mark.parametrize(
    "sampler",
    [
        IndexSampler(100, shuffle=True, epoch_size=300),
        SubsetSampler(200, range(50, 150), shuffle=True, epoch_size=300),
        RepeatedAugmentationSampler(100, repeats=2, epoch_size=600),
    ],
)
def test_each_round_of_a_long_epoch_has_an_order_of_its_own(sampler: Sampler) -> None:
    for one, other in itertools.combinations(epoch_of(sampler, 1).reshape(3, -1), 2):
        assert sorted(one) == sorted(other)
        assert (one == other).mean() < 0.1


def test_a_sampler_is_true_though_it_has_no_length() -> None:
    assert IndexSampler(4)
    with pytest.raises(TypeError, match="num_epochs=None is endless"):
        len(IndexSampler(4))


# ---------------------------------------------------------------- every record as often


@given(st.integers(1, 60), st.booleans(), st.integers(0, 2**64 - 1), st.integers(0, 5))
def test_every_epoch_holds_every_record_once(
    size: int, shuffle: bool, seed: int, epoch: int
) -> None:
    sampler = IndexSampler(size, shuffle=shuffle, seed=seed)
    keys = epoch_of(sampler, epoch)
    assert sorted(keys.tolist()) == list(range(size))
    visits = sampler.visits(np.arange(size))
    assert visits.draw_key.tolist() == visits.record_key.tolist()


def test_other_records_fall_away_in_each_epoch() -> None:
    """Of 50 records in batches of 12 two are dropped; over the epochs, each about as often."""
    sampler = IndexSampler(50, shuffle=True, seed=1)
    dropped = [sampler.keys(50 * epoch + 48, 50 * epoch + 50) for epoch in range(1_000)]
    counts = np.bincount(np.concatenate(dropped), minlength=50)
    assert ((counts - 40) ** 2 / 40).sum() < 85.4  # 99.9 % at 49


@given(st.integers(1, 40), st.integers(1, 130), st.integers(0, 3))
def test_a_virtual_epoch_holds_records_as_evenly_as_can_be(
    size: int, epoch_size: int, epoch: int
) -> None:
    keys = epoch_of(IndexSampler(size, shuffle=True, epoch_size=epoch_size), epoch)
    counts = np.bincount(keys, minlength=size)
    assert counts.sum() == epoch_size
    assert counts.max() - counts.min() <= 1


def test_a_virtual_epoch_that_is_not_shuffled_goes_on_where_the_last_one_ended() -> None:
    sampler = SequentialSampler(5, epoch_size=7)
    assert sampler.keys(0, 21).tolist() == [i % 5 for i in range(21)]
    assert [sampler[i].epoch for i in (6, 7, 13, 14)] == [0, 1, 1, 2]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.booleans())
def test_a_subset_holds_what_is_listed(keys: list[int], shuffle: bool) -> None:
    sampler = SubsetSampler(31, keys, shuffle=shuffle)
    assert sampler.epoch_size == len(keys)
    for epoch in range(2):
        found = epoch_of(sampler, epoch).tolist()
        assert found == keys if not shuffle else sorted(found) == sorted(keys)


def test_a_subset_draws_as_the_whole_does() -> None:
    visits = SubsetSampler(31, [4, 30, 7], shuffle=True).visits(np.arange(3))
    assert visits.draw_key.tolist() == visits.record_key.tolist()


@given(st.integers(1, 30), st.integers(1, 4))
def test_repeated_augmentation_repeats_in_a_row(size: int, repeats: int) -> None:
    sampler = RepeatedAugmentationSampler(size, repeats=repeats, epoch_size=size * repeats)
    groups = epoch_of(sampler, 1).reshape(size, repeats)
    assert (groups == groups[:, :1]).all()
    assert sorted(groups[:, 0].tolist()) == list(range(size))
    assert RepeatedAugmentationSampler(size, repeats=repeats).epoch_size == size


# ---------------------------------------------------------------- by weight


def test_weights_are_probabilities() -> None:
    """Chi-square of 100,000 draws, with zeros among the weights."""
    weights = np.array([0.0, 1, 2, 3, 0, 4, 0.5, 0])
    sampler = WeightedSampler(weights, epoch_size=100_000)
    counts = np.bincount(epoch_of(sampler, 0), minlength=8)
    assert not counts[weights == 0].any()
    expected = (weights / weights.sum() * 100_000)[weights > 0]
    assert ((counts[weights > 0] - expected) ** 2 / expected).sum() < 18.5  # 99.9 % at 4


def test_weights_go_past_the_limit_of_torch() -> None:
    weights = np.zeros(2**24 + 2)
    weights[[5, 2**24 + 1]] = 1, 3
    with pytest.raises(RuntimeError, match="number of categories cannot exceed"):
        torch.multinomial(torch.from_numpy(weights), 1)
    keys = WeightedSampler(weights, epoch_size=4_000).keys(0, 4_000)
    assert set(keys.tolist()) == {5, 2**24 + 1}
    assert 2_850 < (keys == 2**24 + 1).sum() < 3_150


def test_without_replacement_is_drawing_one_after_the_other() -> None:
    """Chi-square of the six orders of three records, with their probabilities worked out."""
    weights = np.array([1.0, 2.0, 5.0])
    sampler = WeightedSampler(weights, replacement=False)
    assert sampler.epoch_size == 3
    drawn = sampler.keys(0, 3 * 5_000).reshape(-1, 3)
    total = 0.0
    for order in itertools.permutations(range(3)):
        first, second = weights[order[0]], weights[order[1]]
        expected = 5_000 * first / 8 * second / (8 - first)
        total += ((drawn == order).all(axis=1).sum() - expected) ** 2 / expected
    assert total < 20.5  # 99.9 % at 5


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40).filter(any), st.integers(0, 9))
def test_without_replacement_no_record_comes_twice(weights: list[float], epoch: int) -> None:
    likely = [key for key, weight in enumerate(weights) if weight]
    keys = epoch_of(WeightedSampler(weights, replacement=False), epoch).tolist()
    assert sorted(keys) == likely


def test_a_short_epoch_without_replacement_is_the_beginning_of_a_whole_one() -> None:
    weights = np.arange(1, 41)
    whole = WeightedSampler(weights, replacement=False)
    short = WeightedSampler(weights, replacement=False, epoch_size=6)
    for epoch in range(3):
        assert epoch_of(short, epoch).tolist() == epoch_of(whole, epoch)[:6].tolist()


@pytest.mark.parametrize("replacement", [True, False])
def test_what_a_record_draws_is_not_what_it_was_drawn_by(replacement: bool) -> None:
    """Its place in the weights' sum, or among those drawn: the first transform knows neither."""
    sampler = WeightedSampler(np.ones(10_000), replacement=replacement)
    visits = sampler.visits(np.arange(10_000))
    drawn = BatchRng(sampler.seed, visits.epoch, visits.draw_key, 0).uniform()
    decided = visits.record_key if replacement else np.arange(10_000)
    assert abs(np.corrcoef(drawn, decided)[0, 1]) < 0.04


def test_weights_may_be_as_small_as_numbers_get() -> None:
    """A product of them is rounded up to their sum."""
    for replacement in (True, False):
        sampler = WeightedSampler([0, 5e-324, 0], replacement=replacement, num_epochs=50)
        assert set(sampler.keys(0, len(sampler)).tolist()) == {1}


def test_balanced_weights() -> None:
    labels = [0, 0, 0, 0, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    for power in (0, 0.5, 0.7, 1, 3):
        weights = balanced_weights(labels, power)
        shares = np.bincount(labels, weights=weights)
        counts = np.bincount(labels)
        np.testing.assert_allclose(shares, counts ** (1.0 - power))
    drawn = WeightedSampler(balanced_weights(labels), epoch_size=30_000).keys(0, 30_000)
    assert np.abs(np.bincount(np.array(labels)[drawn]) - 10_000).max() < 350


def test_classes_without_records_leave_balanced_weights_alone() -> None:
    assert balanced_weights([3, 7, 3, 0]).tolist() == [0.5, 1, 0.5, 1]


# ---------------------------------------------------------------- P x K


@given(
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=9),
    classes=st.integers(1, 9),
    records=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_groups_hold_p_classes_with_k_records(
    counts: list[int], classes: int, records: int, seed: int
) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    classes = min(classes, len(counts))
    sampler = ClassBalancedBatchSampler(
        labels, classes_per_batch=classes, records_per_class=records, seed=seed
    )
    for epoch in range(2):
        groups = epoch_of(sampler, epoch).reshape(-1, classes, records)
        kinds = labels[groups]
        assert (kinds == kinds[..., :1]).all()
        for group, kind in zip(groups, kinds[..., 0], strict=True):
            assert len(set(kind.tolist())) == classes
            for record, label in zip(group, kind, strict=True):
                assert len(set(record.tolist())) == min(records, counts[label])


def test_classes_and_their_records_come_equally_often() -> None:
    labels = np.repeat(np.arange(6), [40, 8, 8, 80, 16, 4])
    sampler = ClassBalancedBatchSampler(
        labels, classes_per_batch=3, records_per_class=4, epoch_size=12 * 40
    )
    counts = np.bincount(epoch_of(sampler, 0), minlength=len(labels))
    assert np.bincount(labels, weights=counts).tolist() == [80] * 6
    assert all(set(counts[labels == c].tolist()) == {80 // (labels == c).sum()} for c in (0, 1, 3))


def test_no_class_and_no_record_stays_out() -> None:
    """Where a round leaves one of seven classes out, and one of a class's five records."""
    labels = np.repeat(np.arange(7), 5)
    sampler = ClassBalancedBatchSampler(
        labels, classes_per_batch=3, records_per_class=2, epoch_size=6 * 200
    )
    counts = np.bincount(epoch_of(sampler, 0), minlength=len(labels))
    assert np.abs(np.bincount(labels, weights=counts) - 1_200 / 7).max() < 25
    assert np.abs(counts - 1_200 / 35).max() < 15


def test_classes_are_shuffled_apart() -> None:
    labels = np.arange(200) % 10
    sampler = ClassBalancedBatchSampler(labels, classes_per_batch=10, records_per_class=20)
    group = epoch_of(sampler, 0).reshape(10, 20)
    for one, other in itertools.combinations(group // 10, 2):
        assert (one == other).sum() < 8


# ---------------------------------------------------------------- mixtures


def test_a_mixture_has_its_shares() -> None:
    sampler = MixtureSampler([1_000, 50, 7], (6, 3, 1))
    block = 1 << 16
    for start in (0, 5 * block):
        keys = sampler.keys(start, start + block)
        of_source = np.bincount(np.digitize(keys, [1_000, 1_050]), minlength=3)
        assert np.abs(of_source - np.array([0.6, 0.3, 0.1]) * block).max() <= 1
    assert sampler.epoch_size == 1_057
    short = np.bincount(np.digitize(sampler.keys(0, 2_000), [1_000, 1_050])) / 2_000
    assert np.abs(short - [0.6, 0.3, 0.1]).max() < 4 * math.sqrt(0.25 / 2_000)


def test_each_source_of_a_mixture_is_gone_through_evenly() -> None:
    keys = MixtureSampler([1_000, 50, 7], (6, 3, 1)).keys(0, 200_000)
    for first, end in ((0, 1_000), (1_000, 1_050), (1_050, 1_057)):
        counts = np.bincount(keys[(first <= keys) & (keys < end)] - first, minlength=end - first)
        assert counts.max() - counts.min() <= 1


def test_passes_and_sources_of_a_mixture_are_shuffled_apart() -> None:
    """Half of a source comes in a block: in its next pass, and of its like, another half."""
    size = 1 << 16
    blocks = MixtureSampler([size, size], (1, 1)).keys(0, 3 * size).reshape(3, size)
    halves = [blocks[0][blocks[0] < size], blocks[2][blocks[2] < size]]
    halves.append(blocks[0][blocks[0] >= size] - size)
    for one, other in itertools.combinations(halves, 2):
        assert abs(len(np.intersect1d(one, other)) - size // 4) < 300  # the deviation is 64


def test_several_manifests_are_mixed(tmp_path: Path) -> None:
    birds = make_manifest(tmp_path / "birds", [(40, 50)] * 9, boxes=True)
    more = make_manifest(tmp_path / "more/below", [(30, 30)] * 5, classes=5)
    both = concat([birds, more])
    assert len(both) == 14
    assert both.root == tmp_path
    assert both.classes == tuple(f"class {c}" for c in range(5))
    assert both.frame["source"].to_list() == [0] * 9 + [1] * 5
    assert both.frame["path"][[0, 9]].to_list() == ["birds/00000.jpg", "more/below/00000.jpg"]
    assert not both.has_boxes
    assert concat([birds, birds]).has_boxes
    sampler = MixtureSampler([birds, more], (1, 1), seed=3)
    with Loader(both, sampler=sampler, batch_size=4, device="cpu") as loader:
        names = [name for batch in loader for name in loader.rows(batch)["path"]]
    assert {name.split("/")[0] for name in names} == {"birds", "more"}
    with pytest.raises(gpufeed.ManifestError, match="at least one Manifest"):
        concat([])


def test_manifests_of_one_label_space_keep_it(tmp_path: Path) -> None:
    birds = make_manifest(tmp_path / "birds", [(40, 50)] * 4)
    other = Manifest(birds.frame, birds.root, ("class 2", "new", "class 0"))
    both = concat([birds, other])
    assert both.classes == ("class 0", "class 1", "class 2", "new")
    assert both.frame["label"].to_list() == [0, 1, 2, 0, 2, 3, 0, 2]


# ---------------------------------------------------------------- other libraries'


def keys_of(loader: Loader) -> list[int]:
    return [int(key) for batch in loader for key in batch["record_key"]]


def fed_by(pictures: Manifest, sampler: Any, **options: Any) -> Loader:
    chosen = {"batch_size": 8, "last_batch": "partial", "device": "cpu", **options}
    return Loader(pictures, sampler=sampler, transforms=gpufeed.presets.train(16), **chosen)


def torch_samplers() -> list[Any]:
    data = range(50)
    kinds = torch.utils.data
    return [
        kinds.SequentialSampler(data),
        kinds.RandomSampler(data, generator=torch.Generator().manual_seed(3)),
        kinds.RandomSampler(data, True, 70, generator=torch.Generator().manual_seed(3)),
        kinds.SubsetRandomSampler([3, 9, 30], generator=torch.Generator().manual_seed(3)),
        kinds.WeightedRandomSampler(
            [1.0] * 49 + [9.0], 60, generator=torch.Generator().manual_seed(3)
        ),
        kinds.distributed.DistributedSampler(data, num_replicas=3, rank=1, seed=5),
    ]


@pytest.mark.parametrize("kind", range(6))
def test_torch_samplers_come_as_they_are(pictures: Manifest, kind: int) -> None:
    expected, given_one = torch_samplers()[kind], torch_samplers()[kind]
    wanted = []
    for epoch in range(2):
        if hasattr(expected, "set_epoch"):
            expected.set_epoch(epoch)
        wanted.append(list(expected))
    with fed_by(pictures, given_one) as loader:
        assert [keys_of(loader) for _ in range(2)] == wanted


def test_grain_samplers_come_as_they_are(pictures: Manifest) -> None:
    theirs = grain.IndexSampler(50, shuffle=True, seed=7, num_epochs=2)
    wanted = [theirs[index].record_key for index in range(100)]
    with fed_by(pictures, theirs) as loader:
        assert isinstance(loader.sampler, GrainSampler)
        assert keys_of(loader) + keys_of(loader) == wanted
        with pytest.raises(gpufeed.EpochsExhausted):
            iter(loader)
        # Addressable, as ours are: any batch, and on from a state in a new loader.
        assert loader.batch(9)["record_key"].tolist() == wanted[66:74]
        loader.seek(3)
        state = loader.state_dict()
    with fed_by(pictures, grain.IndexSampler(50, shuffle=True, seed=7, num_epochs=2)) as loader:
        loader.load_state_dict(state)
        assert keys_of(loader) == wanted[24:50]
    endless = GrainSampler(grain.IndexSampler(50, shuffle=False, seed=7), 50)
    assert endless.num_epochs is None
    assert endless.seed == 7
    assert GrainSampler(grain.SequentialSampler(50), 50, seed=9).seed == 9


def test_a_grain_dataset_of_record_keys_is_an_order(pictures: Manifest) -> None:
    """Shuffled anew in each epoch, and addressable."""

    def theirs() -> Any:
        return grain.MapDataset.range(50)[::2].shuffle(seed=7)

    repeated = theirs().repeat()
    wanted = [repeated[index] for index in range(75)]
    assert wanted[:25] != wanted[25:50]
    with fed_by(pictures, theirs()) as loader:
        assert keys_of(loader) + keys_of(loader) + keys_of(loader) == wanted
        loader.seek(5)
        state = loader.state_dict()
    with fed_by(pictures, theirs()) as loader:
        loader.load_state_dict(state)
        assert keys_of(loader) == wanted[33:50]
    with pytest.raises(ConfigError, match=r"RepeatMapDataset has no end, .* leave out repeat\(\)"):
        fed_by(pictures, repeated)
    for odd in (theirs().map(lambda key: {"key": key}), theirs().batch(5)):
        with (
            fed_by(pictures, odd) as loader,
            pytest.raises(ConfigError, match=r"other than record keys .*; make it of MapDataset"),
        ):
            loader.batch(0)


def test_a_grain_sampler_of_a_shard_is_refused(pictures: Manifest) -> None:
    theirs = grain.IndexSampler(50, grain.ShardOptions(0, 2), seed=7)
    with pytest.raises(
        ConfigError, match="shards its order itself; create it without shard_options"
    ):
        fed_by(pictures, theirs)


class LikeGrains:
    """A sampler in Grain's manner that is not Grain's."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return grain.RecordMetadata(index=index, record_key=index)


def test_an_order_of_something_else_is_refused(pictures: Manifest) -> None:
    with pytest.raises(ConfigError, match="ends after 60 records; it must be a multiple of the 50"):
        fed_by(pictures, LikeGrains(60))
    with (
        fed_by(pictures, LikeGrains(100)) as loader,
        pytest.raises(
            ConfigError, match="the sampler returned record key 50; the manifest has rows"
        ),
    ):
        loader.batch(7)


def noise(image: Any, rng: np.random.Generator) -> Any:
    return rng.integers(0, image.shape[1], (6, 6, 3)).astype(np.uint8)


def inverted(image: Any) -> Any:
    return 255 - image


class Noise(grain.RandomMapTransform):
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return {**element, "image": noise(element["image"], rng)}


class Inverted(grain.MapTransform):
    def map(self, element: Any) -> Any:
        return {**element, "image": inverted(element["image"])}


@pytest.mark.parametrize(
    "sampler",
    [
        IndexSampler(50, shuffle=True, seed=2**63, num_epochs=2),
        RepeatedAugmentationSampler(50, repeats=5, seed=4, num_epochs=2),
        WeightedSampler(1.0 + np.arange(50), seed=5, num_epochs=2),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_grains_loader_takes_our_samplers(pictures: Manifest, sampler: Sampler) -> None:
    """It feeds what a Loader feeds: the same records with the same random numbers."""
    sizes = pictures.frame.select("height", "width").rows()
    source = [{"key": k, "image": np.zeros((*size, 3), np.uint8)} for k, size in enumerate(sizes)]
    theirs = grain.DataLoader(
        data_source=source,
        sampler=sampler,
        operations=[Noise(), Inverted(), grain.Batch(10)],
        shard_options=grain.NoSharding(),
    )
    chain = [
        gpufeed.Lambda(noise, random=True, size=6),
        gpufeed.Lambda(inverted),
        gpufeed.ToDtype("uint8", layout="NHWC"),
    ]
    expected = list(theirs)
    assert len(expected) == 10
    with Loader(
        pictures, sampler=sampler, transforms=chain, batch_size=10, device="cpu", num_threads=1
    ) as loader:
        for step, batch in enumerate(expected):
            ours = loader.batch(step)
            np.testing.assert_array_equal(ours["record_key"], batch["key"])
            np.testing.assert_array_equal(ours["image"], batch["image"])


@pytest.mark.parametrize(
    ("count", "make"),
    [
        (20, lambda: grain.IndexSampler(20, shuffle=True, seed=7)),
        (25, lambda: grain.IndexSampler(25, shuffle=True, seed=7, num_epochs=2)),
        (60, lambda: grain.IndexSampler(60, shuffle=True, seed=7, num_epochs=2)),
        (100, lambda: grain.SequentialSampler(100)),
        (20, lambda: torch.utils.data.SequentialSampler(range(20))),
        (60, lambda: torch.utils.data.RandomSampler(range(60), num_samples=8)),
        (20, lambda: torch.utils.data.DistributedSampler(range(20), num_replicas=2, rank=0)),
        (20, lambda: torch.utils.data.WeightedRandomSampler([1.0] * 20, 50)),
        (20, lambda: IndexSampler(20)),
        (60, lambda: WeightedSampler([1.0] * 60)),
        (20, lambda: RecordedSampler([3], 20)),
    ],
)
def test_a_sampler_made_for_another_manifest_is_refused(
    pictures: Manifest, count: int, make: Callable[[], Any]
) -> None:
    message = f"the sampler is for {count} records, the manifest has 50; make it for this manifest"
    with pytest.raises(ConfigError, match=message):
        fed_by(pictures, make())


def test_what_a_strangers_sampler_calls_its_dataset_is_its_own_matter(pictures: Manifest) -> None:
    class Mapped(torch.utils.data.DistributedSampler[int]):
        """Maps the places of a subset to record keys, as such wrappers do."""

        def __iter__(self) -> Any:
            return (10 * place for place in super().__iter__())

    given = Mapped(range(4), num_replicas=1, rank=0, shuffle=False)
    with fed_by(pictures, given) as loader:
        assert keys_of(loader) == [0, 10, 20, 30]


def test_what_a_recorded_order_can_not_promise_is_said(pictures: Manifest) -> None:
    with fed_by(pictures, torch_samplers()[1]) as loader:
        first = keys_of(loader)
        with pytest.warns(UserWarning, match="no other process can resume"):
            state = loader.state_dict()
        assert [int(k) for s in range(7) for k in loader.batch(s)["record_key"]] == first
        loader.seek(0)
        assert keys_of(loader) == first
        message = (
            "the order of epoch 5 is not available from torch.utils.data.sampler.RandomSampler"
        )
        with pytest.raises(ConfigError, match=message):
            loader.batch(5 * 7)
        with pytest.raises(ConfigError, match=message):
            loader.seek(5 * 7)
    with (
        fed_by(pictures, torch_samplers()[1]) as loader,
        pytest.raises(StateError, match=r"'records' is 50: the order of epoch 1 is not available"),
    ):
        loader.load_state_dict(state)


def test_an_order_with_set_epoch_can_be_gone_to(pictures: Manifest) -> None:
    with fed_by(pictures, torch_samplers()[5]) as loader:
        assert len(loader) == 3
        wanted = [keys_of(loader) for _ in range(7)]
        loader.seek(3 * 6 + 1)
        state = loader.state_dict()
    with fed_by(pictures, torch_samplers()[5]) as loader:
        loader.load_state_dict(state)
        assert keys_of(loader) == wanted[6][8:]
        assert loader.batch(3 * 2)["record_key"].tolist() == wanted[2][:8]


def test_an_epoch_that_is_set_on_torchs_sampler_is_not_ignored(pictures: Manifest) -> None:
    given = torch.utils.data.DistributedSampler(range(50), 2, 0)
    with fed_by(pictures, given) as loader:
        wanted = [keys_of(loader) for _ in range(9)]
        assert given.epoch == 0, "the loader leaves it as it was"
    with fed_by(pictures, given) as loader:
        for epoch in range(3):  # as a DataLoader needs it
            given.set_epoch(epoch)
            assert keys_of(loader) == wanted[epoch]
        assert keys_of(loader) == wanted[3], "epochs go on by themselves"
        given.set_epoch(7)
        with pytest.raises(ConfigError, match=r"set to epoch 7.*call loader\.set_epoch\(7\)"):
            keys_of(loader)
        loader.set_epoch(7)
        assert [keys_of(loader), keys_of(loader)] == wanted[7:]


def test_records_that_repeat_draw_anew(pictures: Manifest) -> None:
    given = torch.utils.data.SubsetRandomSampler([4, 4, 4])
    visits = RecordedSampler(given, 50).visits(np.arange(6))
    assert visits.draw_key.tolist() == [4, 54, 104] * 2
    assert visits.epoch.tolist() == [0] * 3 + [1] * 3
    with fed_by(pictures, [4, 4], batch_size=2) as loader:
        one, other = loader.batch(0)["image"]
        assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    "listed",
    [
        [4, 9, 2, 2],
        (4, 9, 2, 2),
        np.array([4, 9, 2, 2]),
        pl.Series([4, 9, 2, 2]),
        torch.tensor([4, 9, 2, 2]),
    ],
)
def test_a_list_can_do_all_that_a_sampler_can(pictures: Manifest, listed: Any) -> None:
    with fed_by(pictures, listed, batch_size=2) as loader:
        assert isinstance(loader.sampler, SubsetSampler)
        loader.seek(7)
        state = loader.state_dict()
    with fed_by(pictures, listed, batch_size=2) as loader:
        loader.load_state_dict(state)
        assert keys_of(loader) == [2, 2]
        with pytest.raises(IndexError):
            loader.batch(-1)
    other = fed_by(pictures, [9, 4, 2, 2], batch_size=2)
    with pytest.raises(
        gpufeed.StateMismatchError, match="state does not match this loader's sampler"
    ):
        other.load_state_dict(state)


def test_a_recorded_epoch_is_not_gone_on_with_elsewhere(pictures: Manifest) -> None:
    """Its order would be another, which the first state says."""
    with fed_by(pictures, torch.utils.data.RandomSampler(range(50))) as loader:
        next(iter(loader))
        with pytest.warns(UserWarning, match=r"no other process can resume .* as IndexS") as told:
            state = loader.state_dict()
        assert [each.filename for each in told] == [__file__]
        assert loader.state_dict() == state  # without a second warning, which would be an error
        loader.load_state_dict(state)  # here it is on record
    loader = fed_by(pictures, torch.utils.data.RandomSampler(range(50)))
    with pytest.raises(StateError, match="the order of epoch 0 is not available"):
        loader.load_state_dict(state)


def test_short_epochs_are_kept_as_long_as_they_are_needed(pictures: Manifest) -> None:
    given = torch.utils.data.SubsetRandomSampler(range(8))
    with fed_by(pictures, given, batch_size=8, prefetch=8) as loader:
        for _ in range(20):
            assert sorted(keys_of(loader)) == list(range(8))


def test_shards_are_not_cut_twice(pictures: Manifest) -> None:
    theirs = torch_samplers()[5]
    with pytest.raises(ConfigError, match="the sampler makes 3 shards itself, and shard=Shard"):
        fed_by(pictures, theirs, shard=gpufeed.ShardOptions(0, 2))
    with pytest.raises(ConfigError, match="a ledger needs one order for all processes"):
        fed_by(pictures, theirs, ledger=True)


def test_a_global_batch_holds_whole_groups(pictures: Manifest) -> None:
    sampler = ClassBalancedBatchSampler(
        pictures.frame["label"], classes_per_batch=3, records_per_class=4
    )
    with pytest.raises(ConfigError, match="is not a multiple of the sampler's groups of 12"):
        fed_by(pictures, sampler, batch_size=10)
    fed_by(pictures, sampler, batch_size=6, shard=gpufeed.ShardOptions(0, 2))


@pytest.mark.parametrize(
    "sampler",
    [
        IndexSampler(9, shuffle=True),
        WeightedSampler(range(1, 10), replacement=False),
        MixtureSampler([5, 4], (1, 1)),
    ],
)
def test_samplers_can_be_pickled_and_copied(sampler: Sampler) -> None:
    before = sampler.keys(0, 18).tolist()
    for other in (pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)):  # noqa: S301
        assert other.keys(0, 18).tolist() == before


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (5, "sampler is 5; it must be a gpufeed, torch or Grain sampler, or an iter"),
        ("random", "sampler is 'random'"),
        ({1: 2}, r"sampler is \{1: 2\}"),
        ([0.5], r"sampler is \[0.5\]"),
        (np.arange(50) < 9, r"sampler is array\(\[ True"),
        ([0.5] * 5000, r"sampler is \[0\.5.{0,250}\.\.\.\]; it must be"),
        (pl.Series(range(50)) < 9, r"sampler is array\(\[ True"),
        (torch.arange(50) < 9, r"sampler is array\(\[ True"),
        ([True] * 50, r"record_keys is bool \(50,\); it must be integers"),
        ((i for i in range(3)), "it must be a gpufeed, torch"),
        ([], r"the sampler \[\] is empty"),
        (
            torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(range(50)), 25, False),
            "BatchSampler yields batches; for a batch sampler, pass its inner sampler, and batch_",
        ),
    ],
)
def test_what_is_no_sampler_is_named(pictures: Manifest, sampler: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fed_by(pictures, sampler)


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (
            torch.utils.data.SubsetRandomSampler([3, 50]),
            "the sampler returned record key 50; the manifest has rows 0 to 49",
        ),
        (torch.utils.data.SubsetRandomSampler([-1, -1]), "returned record key -1"),
        (
            torch.utils.data.SubsetRandomSampler([[3, 4], [5, 6]]),
            "yields something other than record keys .*; for a batch sampler, pass its inner",
        ),
    ],
)
def test_what_a_sampler_can_not_give_is_named(
    pictures: Manifest, sampler: Any, message: str
) -> None:
    with (
        fed_by(pictures, sampler, batch_size=2) as loader,
        pytest.raises(ConfigError, match=message),
    ):
        next(iter(loader))


def test_a_sampler_that_belies_its_length_is_named(pictures: Manifest) -> None:
    class Liar:
        def __len__(self) -> int:
            return 9

        def __iter__(self) -> Any:
            return iter(range(8))

    with (
        fed_by(pictures, Liar()) as loader,
        pytest.raises(ConfigError, match="yielded 8 record keys, but its length is 9"),
    ):
        next(iter(loader))


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IndexSampler(0), "num_records is 0; it must be an integer of 1 or more"),
        (lambda: IndexSampler(2.5), "num_records is 2.5"),
        (lambda: IndexSampler(2**40 + 1), "num_records is 1099511627777"),
        (lambda: IndexSampler(3, num_epochs=0), "num_epochs is 0; .* 1 or more, or None"),
        (lambda: IndexSampler(3, epoch_size=0), "epoch_size is 0; it must be an integer of 1"),
        (lambda: IndexSampler(3, seed=-1), r"seed is -1; it must be an integer from 0 to 2\*\*64"),
        (lambda: IndexSampler(3, seed=2**64), "seed is 18446744073709551616"),
        (lambda: IndexSampler(3, seed=True), "seed is True"),
        (lambda: IndexSampler(3, seed=3.0), "seed is 3.0"),
        (lambda: IndexSampler(3, seed=jnp.float32(3)), "seed is Array"),
        (lambda: SubsetSampler(3, []), r"record_keys is float64 \(0,\); it must be integers"),
        (lambda: SubsetSampler(3, [0, 3]), r"record_keys\[1\] is 3; the manifest has rows 0"),
        (lambda: SubsetSampler(3, [-1]), r"record_keys\[0\] is -1"),
        (lambda: WeightedSampler([]), r"weights are float64 \(0,\); they must be numbers \(n,\)"),
        (lambda: WeightedSampler([1, -2]), r"weights\[1\] is -2; it must be 0 or more"),
        (lambda: WeightedSampler([1, math.nan]), r"weights\[1\] is nan"),
        (lambda: WeightedSampler([0, 0]), "all weights are 0"),
        (lambda: WeightedSampler([1e308, 1e308]), "add up to more than a float64 can hold"),
        (
            lambda: WeightedSampler([1, 0], replacement=False, epoch_size=2),
            "epoch_size is 2, but only 1 records have a weight above 0",
        ),
        (lambda: balanced_weights([0.5]), r"labels are float64 \(1,\); they must be integers"),
        (lambda: balanced_weights([1], -1), "power is -1; it must be a number of 0 or more"),
        (lambda: RepeatedAugmentationSampler(3, repeats=0), "repeats is 0"),
        (
            lambda: ClassBalancedBatchSampler([0, 1], classes_per_batch=3, records_per_class=1),
            "classes_per_batch is 3; the labels have 2 classes",
        ),
        (
            lambda: ClassBalancedBatchSampler(
                [0, 1], classes_per_batch=2, records_per_class=2, epoch_size=6
            ),
            "epoch_size is 6; it must be a multiple of 2 classes x 2 records",
        ),
        (lambda: MixtureSampler([3, 4], (1,)), "there are 1 weights for 2 sources"),
        (lambda: MixtureSampler([], ()), "there are 0 weights for 0 sources"),
        (lambda: MixtureSampler([3, 4], (1, 0)), r"weights are \(1, 0\); each must be a number"),
        (lambda: MixtureSampler([3, 4], (1, "x")), "each must be a number above 0"),
        (lambda: MixtureSampler([3, 0], (1, 1)), r"sources\[1\] is 0"),
        (lambda: MixtureSampler([3, 4], (1, 1e-6)), r"weights\[1\] is 1e-06, less than half of"),
    ],
)
def test_bad_arguments_are_named(make: Callable[[], Sampler], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@settings(max_examples=20)
@given(st.integers(1, 2**40), st.integers(0, 2**40), st.integers(0, 2**64 - 1))
def test_size_costs_nothing(size: int, position: int, seed: int) -> None:
    """Orders of any length are had without being laid out."""
    sampler = IndexSampler(size, shuffle=True, seed=seed)
    position = position % (size * 1_000)
    record = sampler[position]
    assert 0 <= record.record_key < size
    assert record.epoch == position // size


@pytest.mark.parametrize(
    "seed", [np.uint8(7), np.array(7), torch.tensor(7), jnp.int32(7)], ids=type
)
def test_a_seed_is_an_integer_of_any_library(seed: Any) -> None:
    sampler = IndexSampler(100, shuffle=True, seed=seed)
    assert sampler.identity == IndexSampler(100, shuffle=True, seed=7).identity
    encode(sampler.identity)
