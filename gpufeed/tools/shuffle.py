"""Measures of the randomness of an order, an array of record keys by position.

The measures are independent of samplers. Compare them with those of NumPy's shuffles, in units of
their standard deviation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "Counted",
    "Orders",
    "autocorrelation",
    "classes_per_batch",
    "commonest_difference",
    "count_parts",
    "figures",
]

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

LAGS = 9
_MAX_PARTS = 50
_MIN_EXPECTED = 5
"""Expected draws in each part; with fewer, the statistic does not follow the chi-square law."""


class Orders(NamedTuple):
    """Records, int64 (n,): of an epoch, of the next epoch, and of this epoch with the next seed."""

    first: Int64
    next_epoch: Int64
    next_seed: Int64


def figures(orders: Orders, labels: Int64, batch_size: int) -> dict[str, float]:
    """Return all measures of some orders by name.

    Args:
        orders: orders of at least `batch_size` records.
        labels: the class of each record.
        batch_size: records in a batch.
    """
    first, next_epoch, next_seed = orders
    distinct, largest = classes_per_batch(labels[first], batch_size)
    return {
        "autocorrelation": float(np.abs(autocorrelation(first)).max()),
        "difference": commonest_difference(first)[1],
        "epochs": float(np.corrcoef(first, next_epoch)[0, 1]),
        "seeds": float(np.corrcoef(first, next_seed)[0, 1]),
        "aliasing": int((next_epoch == next_seed).sum()),
        "visits": int(np.bincount(first).max()),
        "classes": float(distinct.mean()),
        "share": float(largest.mean()) / batch_size,
    }


def autocorrelation(keys: Int64) -> Float64:
    """Return the correlation of keys with those 1 to 9 positions later: float64 (9,), -1 to 1.

    Args:
        keys: int64 (n,), n of 10 or more, not all the same.
    """
    centred = keys - keys.mean()
    products = [(centred[lag:] * centred[:-lag]).mean() for lag in range(1, LAGS + 1)]
    return np.array(products) / float((centred**2).mean())


def commonest_difference(keys: Int64) -> tuple[int, int]:
    """Return the most common difference of successive keys and its count; of ties, the least."""
    values, counts = np.unique(np.diff(keys), return_counts=True)
    most = int(counts.argmax())
    return int(values[most]), int(counts[most])


def classes_per_batch(labels: Int64, batch_size: int) -> tuple[Int64, Int64]:
    """Return the number of classes in each batch, and the records of its most common class.

    Args:
        labels: int64 (n,), the classes in the order of the records; an incomplete batch at the end
            is ignored.
        batch_size: 1 to n.

    Returns:
        Two arrays int64 (n // batch_size,).
    """
    batches = len(labels) // batch_size
    ordered = np.sort(labels[: batches * batch_size].reshape(batches, batch_size), axis=1)
    begins = np.ones(ordered.shape, dtype=bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    distinct = begins.sum(axis=1)
    # The lengths of runs of one class; no run crosses batches.
    runs = np.diff(np.append(np.flatnonzero(begins), ordered.size))
    return distinct, np.maximum.reduceat(runs, np.cumsum(distinct) - distinct)


class Counted(NamedTuple):
    """The counts of values in equal parts of their range.

    Attributes:
        z: the distance of Pearson's chi-square from its mean, in standard deviations.
        shares: float64 (parts,), observed over expected counts.
        error: the standard deviation of a share.
    """

    z: float
    shares: Float64
    error: float


def count_parts(values: Int64, size: int) -> Counted:
    """Count values in 50 equal parts of [0, size), or in fewer so that 5 are expected in each.

    Args:
        values: int64 (draws, columns), each 0 to size - 1; 10 draws or more.
        size: 2 or more.
    """
    draws, columns = values.shape
    parts = min(_MAX_PARTS, size, draws // _MIN_EXPECTED)
    cells = values * parts // size + np.arange(columns) * parts
    counts = np.bincount(cells.ravel(), minlength=columns * parts).reshape(columns, parts)
    expected = draws * np.diff(-(-np.arange(parts + 1) * size // parts)) / size
    freedom = columns * (parts - 1)
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    z = (chi_square - freedom) / math.sqrt(2 * freedom)
    return Counted(z, counts.mean(axis=0) / expected, math.sqrt(parts / (draws * columns)))
