"""Keyed permutations: each index once, back again, and as random as NumPy's own."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed import ConfigError
from gpufeed.order.permutation import MAX_SIZE, Key, derive_keys, permute, unpermute

Int64 = npt.NDArray[np.int64]

KEYS = st.builds(
    Key, st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 1)
)
SIZES = (24_633, 320_291, 1_281_167)


def order(size: int, key: Key) -> Int64:
    return permute(np.arange(size), size, key)


@given(st.integers(1, 300), KEYS)
def test_each_index_comes_once(size: int, key: Key) -> None:
    assert sorted(order(size, key).tolist()) == list(range(size))


@given(st.integers(1, MAX_SIZE), st.lists(st.floats(0, 1), min_size=1, max_size=20), KEYS)
def test_the_inverse_leads_back(size: int, shares: list[float], key: Key) -> None:
    indices = np.array([min(int(share * size), size - 1) for share in shares])
    places = permute(indices, size, key)
    assert places.dtype == np.int64
    assert ((places >= 0) & (places < size)).all()
    assert unpermute(places, size, key).tolist() == indices.tolist()
    assert permute(unpermute(indices, size, key), size, key).tolist() == indices.tolist()


@given(
    st.lists(st.tuples(st.integers(1, 10**6), KEYS), min_size=1, max_size=8), st.integers(0, 2**62)
)
def test_sizes_and_keys_may_be_one_for_each_index(each: list[tuple[int, Key]], where: int) -> None:
    seed = each[0][1].seed
    sizes = np.array([size for size, _ in each])
    epochs, purposes = (np.array([key[i] for _, key in each]) for i in (1, 2))
    indices = where % sizes
    together = permute(indices, sizes, derive_keys(seed, epochs, purposes))
    alone = [
        permute(indices[i : i + 1], int(sizes[i]), Key(seed, int(epochs[i]), int(purposes[i])))[0]
        for i in range(len(each))
    ]
    assert together.tolist() == alone
    assert unpermute(together, sizes, derive_keys(seed, epochs, purposes)).tolist() == (
        indices.tolist()
    )


def test_the_order_never_changes() -> None:
    """Literal orders: a change here would break every run that is resumed across versions."""
    assert order(10, Key(0, 0)).tolist() == [5, 4, 0, 2, 6, 8, 9, 1, 7, 3]
    assert order(10, Key(0, 1)).tolist() == [1, 9, 4, 7, 3, 2, 5, 0, 8, 6]
    assert order(7, Key(2**64 - 1, 2**32 - 1, 2**63 - 1)).tolist() == [5, 2, 1, 6, 4, 3, 0]
    far = permute(np.array([0, 1, 10**9, MAX_SIZE - 1]), MAX_SIZE, Key(7, 3))
    assert far.tolist() == [613524159442, 419630417107, 639625498962, 220419771522]


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 7])
def test_small_orders_are_uniform(size: int) -> None:
    """Chi-square over all orders there are, of 60,000 keys."""
    keys = derive_keys(9, np.arange(60_000), np.zeros(60_000, dtype=np.int64))
    drawn = [permute(np.full(60_000, index), size, keys) for index in range(size)]
    _, counts = np.unique(np.stack(drawn), axis=1, return_counts=True)
    orders = math.factorial(size)
    assert len(counts) == orders
    expected = 60_000 / orders
    chi_square = ((counts - expected) ** 2 / expected).sum()
    freedom = orders - 1
    assert chi_square < freedom + 3.5 * math.sqrt(2 * freedom) + 4


@pytest.mark.parametrize("size", [8, 9, 12, 25, 49, 50, 81, 121])
def test_half_of_all_orders_are_odd(size: int) -> None:
    """As permutations: a network of even moves alone would reach only half of them."""
    keys = derive_keys(2, np.arange(2_000), np.zeros(2_000, dtype=np.int64))
    orders = np.stack([permute(np.full(2_000, index), size, keys) for index in range(size)])
    later = np.triu(np.ones((size, size), dtype=bool), 1)
    inversions = ((orders[:, None] > orders[None]) & later[..., None]).sum((0, 1))
    assert abs((inversions % 2).mean() - 0.5) < 3.5 * 0.5 / math.sqrt(2_000)


def largest_autocorrelation(values: Int64) -> float:
    centred = values - values.mean()
    power = (centred**2).mean()
    return max(abs((centred[lag:] * centred[:-lag]).mean() / power) for lag in range(1, 10))


def commonest_difference(values: Int64) -> int:
    return int(np.unique(np.diff(values), return_counts=True)[1].max())


@pytest.mark.parametrize("size", SIZES)
def test_an_order_is_as_random_as_numpys(size: int) -> None:
    """Neighbours are unrelated: no correlation, and no step that comes often."""
    ours = [order(size, Key(1, epoch)) for epoch in range(3)]
    numpys = [np.random.default_rng(seed).permutation(size) for seed in range(3)]
    for statistic in (largest_autocorrelation, commonest_difference):
        assert max(map(statistic, ours)) <= 2 * max(map(statistic, numpys)), statistic.__name__


@pytest.mark.parametrize("size", [1_281_167, 2**34 + 7, MAX_SIZE])
def test_places_far_apart_are_unrelated_too(size: int) -> None:
    """Any bit of an index decides: of no power of two, nor of so many rows, do pairs stay apart."""
    columns = math.isqrt(size - 1) + 1
    for lag in (step << bit for step in (1, columns) for bit in range(20)):
        if lag < size // 2:
            first = np.random.default_rng(lag).integers(0, size - lag, 2_000)
            steps = permute(first + lag, size, Key(1, 0)) - permute(first, size, Key(1, 0))
            assert np.unique(steps, return_counts=True)[1].max() <= 5, lag


@pytest.mark.parametrize("size", SIZES)
def test_each_place_is_as_likely(size: int) -> None:
    """Chi-square of the places that twenty records take in 2,000 epochs, in 50 equal parts."""
    epochs = np.arange(2_000)
    keys = derive_keys(4, epochs, np.zeros_like(epochs))
    total = 0.0
    for record in np.linspace(0, size - 1, 20).astype(np.int64):
        places = unpermute(np.full(2_000, record), size, keys)
        counts = np.bincount(places * 50 // size, minlength=50)
        total += ((counts - 40) ** 2 / 40).sum()
    freedom = 20 * 49
    assert abs(total - freedom) < 3.5 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("size", SIZES)
def test_epochs_and_seeds_are_unrelated(size: int) -> None:
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]
    orders = [order(size, Key(*key)) for key in keys]
    for one, other in itertools.combinations(orders, 2):
        assert abs(np.corrcoef(one, other)[0, 1]) < 4 / math.sqrt(size)
        # Two unrelated orders agree in one place, on average.
        assert (one == other).sum() < 8


@given(st.integers(0, 2**64 - 2), st.integers(1, 2**32 - 1))
def test_a_seed_and_epoch_never_stand_for_others(seed: int, epoch: int) -> None:
    plain = order(40, Key(seed, epoch)).tolist()
    for other in (Key(seed + 1, epoch - 1), Key(seed + 1, epoch), Key(seed, epoch - 1)):
        assert order(40, other).tolist() != plain


@pytest.mark.parametrize(
    ("indices", "size", "message"),
    [
        ([0], 0, "size is 0; it must be from 1 to"),
        ([0], MAX_SIZE + 1, "size is 1099511627777; it must be from 1 to"),
        ([3, 5], 5, r"indices range from 3 to 5; they must be in \[0, 5\)"),
        ([-1], 5, "indices range from -1 to -1"),
    ],
)
def test_what_is_out_of_range_is_named(indices: list[int], size: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        permute(np.array(indices), size, Key(0, 0))


def test_nothing_is_permuted_to_nothing() -> None:
    assert permute(np.array([], dtype=np.int64), 5, Key(0, 0)).tolist() == []
