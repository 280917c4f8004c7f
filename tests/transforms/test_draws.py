"""Draws of other distributions than the uniform one."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from gpufeed.rng import BatchRng
from gpufeed.transforms.distributions import _normal_quantile, dirichlet, normal


def numbers(keys: np.ndarray) -> BatchRng:
    return BatchRng(2, np.zeros(len(keys), np.int64), keys, 1)


def test_normal_quantiles_are_those_of_the_standard_library() -> None:
    tails = 10.0 ** -np.arange(2, 17)
    shares = np.concatenate([np.linspace(0.001, 0.999, 999), tails, 1 - tails[:13], [2.0**-54]])
    wanted = [NormalDist().inv_cdf(share) for share in shares]
    np.testing.assert_allclose(_normal_quantile(shares), wanted, atol=1e-6)


def test_normal_numbers() -> None:
    drawn = normal(numbers(np.arange(100_000)), 2)
    assert drawn.shape == (100_000, 2)
    for moment, wanted in ((1, 0), (2, 1), (3, 0), (4, 3)):
        assert np.abs((drawn**moment).mean(axis=0) - wanted).max() < 0.1
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.015


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.5, 1.0, 1.5, 30.0])
def test_dirichlet_moments(alpha: float) -> None:
    three, two = dirichlet(numbers(np.arange(50_000)), alpha, 3, 2)
    for shares, size in ((three, 3), (two, 2)):
        assert shares.shape == (50_000, size)
        assert (shares >= 0).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        wanted = (size - 1) / size**2 / (size * alpha + 1)
        assert shares.mean(axis=0) == pytest.approx(1 / size, abs=0.01)
        assert shares.var(axis=0) == pytest.approx(wanted, rel=0.05)
    assert abs(np.corrcoef(three[:, 0], two[:, 0])[0, 1]) < 0.02


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.0])
def test_a_record_draws_the_same_whoever_is_beside_it(alpha: float) -> None:
    """Though some records draw more often than others."""
    keys = np.arange(300)
    whole = dirichlet(numbers(keys), alpha, 3, 2)
    for chosen in (keys[::-1], keys[5:6], keys[::7]):
        for some, all_of_them in zip(dirichlet(numbers(chosen), alpha, 3, 2), whole, strict=True):
            np.testing.assert_array_equal(some, all_of_them[chosen])
