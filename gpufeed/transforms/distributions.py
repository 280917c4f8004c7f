"""Distributions beside the uniform, drawn from a batch's numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpufeed.rng import BatchRng

__all__ = ["beta", "gamma", "normal"]

Float64 = npt.NDArray[np.float64]

_ATTEMPTS = 16
"""Of which each is taken with a probability above 0.95, so that all fail once in 10 ** 20."""


def normal(rng: BatchRng, size: int | None = None) -> Float64:
    """Draw from the normal distribution of mean 0 and deviation 1: float64 (n,), or (n, size).

    Box and Muller's transform (1958).
    """
    count = 1 if size is None else size
    unit = rng.uniform(size=2 * count)
    radius = np.sqrt(-2.0 * np.log1p(-unit[:, ::2]))
    drawn = radius * np.cos(2.0 * np.pi * unit[:, 1::2])
    return np.asarray(drawn[:, 0] if size is None else drawn)


def log_gamma_variate(rng: BatchRng, shape: float) -> Float64:
    """Draw the logarithm of a gamma variate of scale 1: float64 (n,).

    Marsaglia and Tsang, "A simple method for generating gamma variables" (2000), with their boost
    of shapes below 1; as a logarithm, since small shapes give numbers too small for a float.
    """
    boosted = shape + 1.0 if shape < 1.0 else shape
    d = boosted - 1.0 / 3.0
    x = normal(rng, size=_ATTEMPTS)
    unit = rng.uniform(size=_ATTEMPTS)
    v = (1.0 + x / np.sqrt(9.0 * d)) ** 3
    positive = v > 0
    log_v = np.log(np.where(positive, v, 1.0))
    taken = positive & (np.log1p(-unit) < 0.5 * x**2 + d - d * v + d * log_v)
    rows, first = np.arange(len(rng)), taken.argmax(axis=1)
    drawn = np.log(d) + log_v[rows, first]
    if shape < 1.0:
        drawn += np.log1p(-rng.uniform()) / shape
    return np.asarray(drawn)


def gamma(rng: BatchRng, shape: float) -> Float64:
    """Draw from the gamma distribution of scale 1: float64 (n,)."""
    return np.exp(log_gamma_variate(rng, shape))


def beta(rng: BatchRng, a: float, b: float) -> Float64:
    """Draw from the beta distribution: float64 (n,), 0 to 1."""
    one, two = log_gamma_variate(rng, a), log_gamma_variate(rng, b)
    return np.asarray(1.0 / (1.0 + np.exp(np.clip(two - one, -700.0, 700.0))))
