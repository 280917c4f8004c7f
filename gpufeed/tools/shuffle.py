"""How random an order is: figures of an order as an array of record keys, and what to expect.

Nothing here knows a sampler. An order is int64 (n,), the record keys at successive positions, and
what is expected is what a uniformly drawn permutation of all records gives.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "SHARE",
    "ChiSquare",
    "Expected",
    "agreements",
    "autocorrelation",
    "chi_square",
    "classes_per_batch",
    "commonest_bound",
    "commonest_difference",
    "correlation",
    "expected_classes",
    "normal_bound",
    "part_sizes",
    "poisson_bound",
]

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

SHARE = 0.999
"""The share of perfect shuffles that keep to a bound."""

_MOST_PARTS = 50
_LEAST_DRAWS = 20
_IN_A_PART = 5
"""Draws to be expected in each part: with fewer, a chi-square has another distribution."""


class ChiSquare(NamedTuple):
    """How evenly values fall into equal parts of their range.

    Attributes:
        value: the sum over columns and parts of (counted - expected)**2 / expected.
        freedom: its mean, where values are uniform: columns * (parts - 1).
        draws: values in a column.
        columns: sets of values that were counted each by itself.
        counts: int64 (parts,), the values of all columns in each part.
    """

    value: float
    freedom: int
    draws: int
    columns: int
    counts: Int64

    @property
    def z(self) -> float:
        """How many standard deviations, sqrt(2 * freedom), it lies from its mean."""
        return (self.value - self.freedom) / math.sqrt(2 * self.freedom)


class Expected(NamedTuple):
    """Mean and standard deviation."""

    mean: float
    deviation: float


def autocorrelation(keys: Int64, lags: int = 9) -> Float64:
    """Return how keys correlate with those a few positions on.

    Args:
        keys: int64 (n,), n above `lags`, not all the same.
        lags: how many, from 1.

    Returns:
        float64 (lags,): the mean of (key - mean)(later key - mean) over the variance; near -1 to 1.
        A perfect shuffle gives about 0, with a standard deviation of 1 / sqrt(n).
    """
    centred = keys - keys.mean()
    power = (centred**2).mean()
    return np.array([(centred[lag:] * centred[:-lag]).mean() / power for lag in range(1, lags + 1)])


def commonest_difference(keys: Int64) -> tuple[int, int]:
    """Return the commonest difference of successive keys, and how often it comes.

    Args:
        keys: int64 (n,), n of 2 or more.

    Returns:
        The difference, the least of several that are as common; and 1 to n - 1.
    """
    values, counts = np.unique(np.diff(keys), return_counts=True)
    most = int(counts.argmax())
    return int(values[most]), int(counts[most])


def commonest_bound(size: int, looked: int, epochs: int = 1) -> int:
    """Return what the commonest difference's count stays at or below in `SHARE` of shuffles.

    A difference d comes at each of looked - 1 places with probability (size - |d|) / (size (size -
    1)), rarely enough to be taken as Poisson's and as unrelated to the others.

    Args:
        size: records, 2 or more.
        looked: positions of each epoch.
        epochs: how many the most is taken of.
    """
    # Means fall from (looked - 1) / size, of a difference of 1, straight to 0: a thousand stand for
    # all.
    means = (looked - 1) / size * (1 - (np.arange(1000) + 0.5) / 1000)
    for count in range(1, looked):
        within = np.log1p(-_poisson_tail(count, means)).mean() * 2 * (size - 1) * epochs
        if within >= math.log(SHARE):
            return count
    return looked - 1


def poisson_bound(mean: float, times: int = 1) -> int:
    """Return what the largest of some Poisson counts stays at or below in `SHARE` of cases.

    Args:
        mean: of each, 0 or more.
        times: how many counts.
    """
    count = 0
    while times * np.log1p(-_poisson_tail(count, np.array([mean]))[0]) < math.log(SHARE):
        count += 1
    return count


def _poisson_tail(count: int, means: Float64) -> Float64:
    """The probabilities of more than `count`, summed from the small end, so that none is lost."""
    numbers = np.arange(count + 2, count + 60)
    steps = np.cumprod(means[:, None] / numbers, axis=1)
    first = np.exp(-means) * means ** (count + 1) / math.factorial(count + 1)
    return np.asarray(np.minimum(first * (1 + steps.sum(axis=1)), 1 - 1e-16))


def normal_bound(times: int = 1) -> float:
    """Return what the largest of some standard normal sizes stays below in `SHARE` of cases."""
    return NormalDist().inv_cdf(1 - (1 - SHARE ** (1 / times)) / 2)


def chi_square(values: Int64, size: int) -> ChiSquare | None:
    """Return how evenly each column of values falls into equal parts of [0, size).

    Pearson's chi-square, in at most 50 parts, and few enough that 5 draws are expected in each.

    Args:
        values: int64 (draws, columns), each 0 to size - 1.
        size: 2 or more.

    Returns:
        None where there are fewer than 20 draws.
    """
    draws, columns = values.shape
    if draws < _LEAST_DRAWS:
        return None
    parts = min(_MOST_PARTS, size, draws // _IN_A_PART)
    cells = values * parts // size + np.arange(columns) * parts
    counts = np.bincount(cells.ravel(), minlength=columns * parts).reshape(columns, parts)
    expected = draws * part_sizes(size, parts) / size
    value = float(((counts - expected) ** 2 / expected).sum())
    return ChiSquare(value, columns * (parts - 1), draws, columns, counts.sum(axis=0))


def part_sizes(size: int, parts: int) -> Int64:
    """Return how many of 0 to size - 1 lie in each part: int64 (parts,), value * parts // size."""
    return np.diff(-(-np.arange(parts + 1) * size // parts))


def correlation(one: Int64, other: Int64) -> float:
    """Return Pearson's correlation of two orders, each int64 (n,) and not all the same: -1 to 1.

    Two unrelated shuffles give about 0, with a standard deviation of 1 / sqrt(n).
    """
    return float(np.corrcoef(one, other)[0, 1])


def agreements(one: Int64, other: Int64) -> int:
    """Return at how many positions two orders, each int64 (n,), hold the same record: 0 to n.

    Two unrelated shuffles of n records agree at one, on average, as Poisson's counts do.
    """
    return int((one == other).sum())


def classes_per_batch(labels: Int64, batch_size: int) -> tuple[Int64, Int64]:
    """Return how many classes each batch has, and how many records its commonest one.

    Args:
        labels: integers (n,), the classes in the order of the records; what fills no batch at the
            end is left out.
        batch_size: 1 to n.

    Returns:
        Two int64 (n // batch_size,), each of 1 to batch_size.
    """
    batches = len(labels) // batch_size
    ordered = np.sort(labels[: batches * batch_size].reshape(batches, batch_size), axis=1)
    begins = np.ones(ordered.shape, dtype=bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    distinct = begins.sum(axis=1)
    # Runs of one class; the first of each batch begins with it.
    runs = np.diff(np.append(np.flatnonzero(begins), ordered.size))
    firsts = np.cumsum(distinct) - distinct
    return distinct.astype(np.int64), np.maximum.reduceat(runs, firsts).astype(np.int64)


def expected_classes(class_sizes: Int64, batch_size: int) -> Expected:
    """Return the number of classes in a batch drawn without replacement, exactly.

    A class of m records of n is missing from a batch of b with the hypergeometric probability
    C(n - m, b) / C(n, b), the product of (n - b - j) / (n - j) over j below m. The mean is the sum
    of what is left to 1; the deviation follows from the same for each two classes together.

    Args:
        class_sizes: int64 (classes,), records of each class; 0 where it has none.
        batch_size: 1 to their sum.
    """
    sizes, alike = np.unique(class_sizes[class_sizes > 0], return_counts=True)
    records = int((sizes * alike).sum())
    drawn = np.arange(min(2 * int(sizes[-1]), records))
    factors = np.maximum(records - batch_size - drawn, 0) / (records - drawn)
    missing = np.concatenate([[1.0], np.cumprod(factors)])
    alone = missing[sizes]
    mean = float((alike * (1 - alone)).sum())
    # A class with itself is no pair; two that are larger than all records together are not either.
    together = missing[np.minimum(sizes[:, None] + sizes, records)] - alone[:, None] * alone
    pairs = float(alike @ together @ alike - (alike * np.diag(together)).sum())
    return Expected(mean, math.sqrt(max(float((alike * alone * (1 - alone)).sum()) + pairs, 0.0)))
