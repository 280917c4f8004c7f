"""How random an order is: figures of orders, which are arrays of record keys by position.

Nothing here knows a sampler. A figure says something by its distance from those of NumPy's
shuffles, in their standard deviations.
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
_MOST_PARTS = 50
_IN_A_PART = 5
"""Draws to be expected in each part: with fewer, a chi-square has another distribution."""


class Orders(NamedTuple):
    """The records, int64 (n,), of an epoch, of the next, and of the next seed's same epoch."""

    first: Int64
    next_epoch: Int64
    next_seed: Int64


def figures(orders: Orders, labels: Int64, batch_size: int) -> dict[str, float]:
    """Return what can be said of some orders in numbers, each by its name.

    Args:
        orders: of at least `batch_size` records.
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
    """Return how keys correlate with those 1 to 9 positions on: float64 (9,), from -1 to 1.

    Args:
        keys: int64 (n,), n of 10 or more, not all the same.
    """
    centred = keys - keys.mean()
    products = [(centred[lag:] * centred[:-lag]).mean() for lag in range(1, LAGS + 1)]
    return np.array(products) / float((centred**2).mean())


def commonest_difference(keys: Int64) -> tuple[int, int]:
    """Return the commonest difference of successive keys, the least of several, and its count."""
    values, counts = np.unique(np.diff(keys), return_counts=True)
    most = int(counts.argmax())
    return int(values[most]), int(counts[most])


def classes_per_batch(labels: Int64, batch_size: int) -> tuple[Int64, Int64]:
    """Return how many classes each batch has, and how many records its commonest one.

    Args:
        labels: the classes in the order of the records; an incomplete batch at the end is ignored.
        batch_size: 1 to n.

    Returns:
        Two int64 (n // batch_size,).
    """
    batches = len(labels) // batch_size
    ordered = np.sort(labels[: batches * batch_size].reshape(batches, batch_size), axis=1)
    begins = np.ones(ordered.shape, dtype=bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    distinct = begins.sum(axis=1)
    # Runs of one class; the first of each batch begins with it.
    runs = np.diff(np.append(np.flatnonzero(begins), ordered.size))
    return distinct, np.maximum.reduceat(runs, np.cumsum(distinct) - distinct)


class Counted(NamedTuple):
    """How evenly values fall into equal parts of their range.

    Attributes:
        z: how many standard deviations Pearson's chi-square lies from its mean.
        shares: float64 (parts,), the values in each part over those expected.
        error: the standard deviation of a share.
    """

    z: float
    shares: Float64
    error: float


def count_parts(values: Int64, size: int) -> Counted:
    """Count values in equal parts of [0, size): 50, or fewer so that 5 are expected in each.

    Args:
        values: int64 (draws, columns), each 0 to size - 1; 10 draws or more.
        size: 2 or more.
    """
    draws, columns = values.shape
    parts = min(_MOST_PARTS, size, draws // _IN_A_PART)
    cells = values * parts // size + np.arange(columns) * parts
    counts = np.bincount(cells.ravel(), minlength=columns * parts).reshape(columns, parts)
    expected = draws * np.diff(-(-np.arange(parts + 1) * size // parts)) / size
    freedom = columns * (parts - 1)
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    z = (chi_square - freedom) / math.sqrt(2 * freedom)
    return Counted(z, counts.mean(axis=0) / expected, math.sqrt(parts / (draws * columns)))
