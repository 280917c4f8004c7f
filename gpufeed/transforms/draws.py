"""Numbers of other distributions, from the uniform ones that a record has."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from gpufeed.rng import BatchRng, exp, minus_log

__all__ = ["dirichlet", "log_uniform", "normal"]

Float64 = npt.NDArray[np.float64]

# Wichura's PPND7, numerators and denominators from the highest power down.
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
    """Return numbers between two bounds above 0, their logarithms uniform if `unit` is in [0, 1).

    The same bits on every machine.
    """
    low, high = _logs(bounds)
    return exp(low + unit * (high - low))


@functools.cache
def _logs(bounds: tuple[float, float]) -> list[float]:
    logs: list[float] = (-minus_log(np.array(bounds))).tolist()
    return logs


def normal(rng: BatchRng, size: int) -> Float64:
    """Draw from the standard normal distribution: float64 (n, size).

    By its quantiles (Wichura, "Algorithm AS 241: the percentage points of the normal distribution",
    1988), within 1e-6, from exactly rounded operations only: the same bits on every machine.
    """
    # In the middle of the 2**53 steps, so neither 0 nor 1, which the last would be rounded to.
    return _normal_quantile(np.minimum(rng.uniform(size=size) + 2.0**-54, 1.0 - 2.0**-53))


def _normal_quantile(share: Float64) -> Float64:
    away = share - 0.5
    near = 0.180625 - away * away
    centre = away * _ratio(_CENTRE, near)
    reach = np.sqrt(minus_log(np.minimum(share, 1.0 - share)))
    tail = np.where(reach <= 5.0, _ratio(_TAIL, reach - 1.6), _ratio(_FAR_TAIL, reach - 5.0))
    return np.where(near >= 0.0, centre, np.copysign(tail, away))


def _ratio(powers: tuple[tuple[float, ...], tuple[float, ...]], x: Float64) -> Float64:
    above, below = (np.polyval(np.array(part), x) for part in powers)
    return np.asarray(above / below)


def dirichlet(rng: BatchRng, alpha: float, *sizes: int) -> list[Float64]:
    """Draw shares that add up to 1, symmetrically.

    Draw nothing from `rng` after it: how much this takes differs by record.

    Args:
        rng: the records' numbers.
        alpha: above 0; 1 makes all shares equally likely, less drives them to the corners.
        sizes: how many shares, for each of some independent draws.

    Returns:
        float64 (n, size) for each of the sizes.
    """
    total = sum(sizes)
    if alpha == 1.0:
        drawn = minus_log(1.0 - rng.uniform(size=total))
    elif alpha > 1.0:
        drawn = _gamma(rng, alpha, total)
    else:
        # A gamma of one more, times u ** (1 / alpha). As an exponent, so that it does not vanish.
        exponents = -minus_log(1.0 - rng.uniform(size=total)) / alpha
        drawn = _gamma(rng, alpha + 1.0, total)
    shares, start = [], 0
    for size in sizes:
        part = slice(start, start + size)
        weights = drawn[:, part]
        if alpha < 1.0:
            largest = exponents[:, part].max(axis=1, keepdims=True)
            weights = weights * exp(exponents[:, part] - largest)
        shares.append(weights / weights.sum(axis=1, keepdims=True))
        start += size
    return shares


def _gamma(rng: BatchRng, shape: float, size: int) -> Float64:
    """Draw from the gamma distribution, of a shape of 1 or more: float64 (n, size).

    Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). Records draw again
    until each of their numbers was accepted once, and keep the first that was.
    """
    d = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    out = np.full((len(rng), size), np.nan)
    pending, left = np.arange(len(rng)), rng
    while len(pending):
        drawn = normal(left, size)
        root = 1.0 + c * drawn
        cube = root * root * root
        bound = minus_log(1.0 - left.uniform(size=size))
        log = -minus_log(np.where(cube > 0.0, cube, 1.0))
        accepted = (cube > 0.0) & (-bound < 0.5 * drawn * drawn + d * (1.0 - cube + log))
        rows = out[pending]
        out[pending] = np.where(np.isnan(rows) & accepted, d * cube, rows)
        again = np.isnan(out[pending]).any(axis=1)
        pending, left = pending[again], left.rows(again)
    return out
