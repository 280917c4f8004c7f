"""Random numbers of other distributions than the uniform one."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from gpufeed.rng import BatchRng, exp, minus_log

__all__ = ["dirichlet", "log_uniform", "normal"]

Float64 = npt.NDArray[np.float64]

# Wichura's PPND7: coefficients of numerators and denominators, the highest power first.
_CENTRE = (
    (59.109374720, 159.29113202, 50.434271938, 3.3871327179),
    (67.187563600, 78.757757664, 17.895169469, 1.0),
)
_TAIL = (
    (0.17023821103, 1.3067284816, 2.7568153900, 1.4234372777),
    (0.12021132975, 0.73700164250, 1.0),
)
_FAR_TAIL = (
    (0.017337203997, 0.42868294337, 3.0812263860, 6.6579051150),
    (0.012258202635, 0.24197894225, 1.0),
)


def log_uniform(unit: Float64, bounds: tuple[float, float]) -> Float64:
    """Return log-uniform numbers between two bounds above 0, given uniform numbers in [0, 1).

    The result has the same bits on every machine.
    """
    low, high = _logs(bounds)
    return exp(low + unit * (high - low))


@functools.cache
def _logs(bounds: tuple[float, float]) -> list[float]:
    logs: list[float] = (-minus_log(np.array(bounds))).tolist()
    return logs


def normal(rng: BatchRng, size: int) -> Float64:
    """Draw from the standard normal distribution: float64 (n, size).

    By inversion, accurate to 1e-6 (Wichura, "Algorithm AS 241: the percentage points of the normal
    distribution", 1988). Only exactly rounded operations are used, so the result has the same bits
    on every machine.
    """
    # Shifted by half a step of 2**-53 to exclude 0; the last step would round to 1.
    return _normal_quantile(np.minimum(rng.uniform(size=size) + 2.0**-54, 1.0 - 2.0**-53))


def _normal_quantile(probability: Float64) -> Float64:
    q = probability - 0.5
    near = 0.180625 - q * q
    centre = q * _rational(_CENTRE, near)
    r = np.sqrt(minus_log(np.minimum(probability, 1.0 - probability)))
    tail = np.where(r <= 5.0, _rational(_TAIL, r - 1.6), _rational(_FAR_TAIL, r - 5.0))
    return np.where(near >= 0.0, centre, np.copysign(tail, q))


def _rational(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: Float64) -> Float64:
    numerator, denominator = (np.polyval(np.array(part), x) for part in coefficients)
    return np.asarray(numerator / denominator)


def dirichlet(rng: BatchRng, alpha: float, *sizes: int) -> list[Float64]:
    """Draw from symmetric Dirichlet distributions: shares that add up to 1.

    Draw nothing from `rng` afterwards, since records take different amounts of numbers.

    Args:
        rng: the random numbers of the records.
        alpha: above 0. With 1, all vectors of shares are equally likely; below 1, single shares
            dominate.
        sizes: number of shares of each independent draw.

    Returns:
        float64 (n, size) for each of the sizes.
    """
    total = sum(sizes)
    if alpha == 1.0:
        drawn = minus_log(1.0 - rng.uniform(size=total))
    elif alpha > 1.0:
        drawn = _gamma(rng, alpha, total)
    else:
        # A gamma variable of shape alpha + 1, times u ** (1 / alpha). The power is kept as an
        # exponent, since it may underflow.
        exponents = -minus_log(1.0 - rng.uniform(size=total)) / alpha
        drawn = _gamma(rng, alpha + 1.0, total)
    shares, start = [], 0
    for size in sizes:
        columns = slice(start, start + size)
        weights = drawn[:, columns]
        if alpha < 1.0:
            largest = exponents[:, columns].max(axis=1, keepdims=True)
            weights = weights * exp(exponents[:, columns] - largest)
        shares.append(weights / weights.sum(axis=1, keepdims=True))
        start += size
    return shares


def _gamma(rng: BatchRng, shape: float, size: int) -> Float64:
    """Draw from the gamma distribution of a shape of 1 or more: float64 (n, size).

    Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). A record draws
    until each of its `size` numbers has been accepted once, and keeps the first accepted ones.
    """
    d = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    out = np.full((len(rng), size), np.nan)
    pending = np.arange(len(rng))
    while len(pending):
        x = normal(rng, size)
        root = 1.0 + c * x
        v = root * root * root
        log_u = -minus_log(1.0 - rng.uniform(size=size))
        log_v = -minus_log(np.where(v > 0.0, v, 1.0))
        accepted = (v > 0.0) & (log_u < 0.5 * x * x + d * (1.0 - v + log_v))
        rows = out[pending]
        out[pending] = np.where(np.isnan(rows) & accepted, d * v, rows)
        again = np.isnan(out[pending]).any(axis=1)
        pending, rng = pending[again], rng.rows(again)
    return out
