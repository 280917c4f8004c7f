"""Divides records at random into parts: sizes of the parts, and which part each record is in."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpufeed import rng
from gpufeed._util.numbers import is_integer, is_number
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError

__all__ = ["divide", "fold_sizes", "part_sizes"]

Int64 = npt.NDArray[np.int64]


def part_sizes(lengths: Sequence[float], count: int) -> list[int]:
    """Return the number of records of each part; see `Manifest.random_split`.

    Raises:
        ConfigError: the lengths are neither fractions of 1 nor numbers that sum to `count`.
    """
    wanted = (
        "it must be fractions above 0 that sum to 1, such as [0.8, 0.2], or numbers of images that "
        f"sum to {count}"
    )
    given: object = lengths
    sequence = isinstance(given, list | tuple) and len(given)
    if not sequence or not all(is_number(each) and each > 0 for each in lengths):
        raise ConfigError(f"lengths is {short(lengths)}; {wanted}")
    total = sum(lengths)
    if all(is_integer(each) for each in lengths):
        if total != count:
            raise ConfigError(f"lengths is {short(lengths)}, which sums to {total}; {wanted}")
        return [int(each) for each in lengths]
    if not math.isclose(total, 1.0):
        raise ConfigError(f"lengths is {short(lengths)}, which sums to {total}; {wanted}")
    # Rounded, so that 0.29 * 100 is 29 and not a little less.
    shares = np.round(np.array(lengths, dtype=np.float64) * count, 6)
    sizes = np.floor(shares).astype(np.int64)
    missing = count - int(sizes.sum())
    sizes[np.argsort(sizes - shares, kind="stable")[:missing]] += 1
    return [int(size) for size in sizes]


def fold_sizes(folds: int, fold: int, count: int) -> list[int]:
    """Return the number of records of each fold; see `Manifest.k_fold`.

    Raises:
        ConfigError: there is no such fold of `count` records.
    """
    if not is_integer(folds) or not 2 <= folds <= count:
        raise ConfigError(
            f"folds is {short(folds)}; it must be an integer from 2 to {count}, the number of "
            "images"
        )
    if not is_integer(fold) or not 0 <= fold < folds:
        raise ConfigError(f"fold is {short(fold)}; it must be an integer from 0 to {folds - 1}")
    return [(count + folds - 1 - number) // folds for number in range(folds)]


def divide(strata: npt.NDArray[np.int32], sizes: Sequence[int], seed: int) -> Int64:
    """Return the part that each record is in, at random.

    A part of m of n records has k * m / n of the k records of a stratum, to within one.

    Args:
        strata: int32 (n,), the stratum of each record, such as its label.
        sizes: the number of records of each part; they sum to n.
        seed: 0 to 2**64 - 1.

    Returns:
        int64 (n,).

    Raises:
        ConfigError: the seed is out of range.
    """
    count, none = len(strata), np.zeros(len(strata), np.int64)
    drawn = rng.words(rng.check_seed(seed), none, np.arange(count), rng.SPLIT_STREAM, 0, 1)
    order = np.lexsort((drawn[:, 0], drawn[:, 1]))
    # The strata in the order in which the shuffled records name them.
    _, first, stratum = np.unique(strata[order], return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    stratum = rank[stratum]
    whole = np.bincount(stratum)[:, None] * np.array(sizes, dtype=np.int64)
    counts = whole // count
    # Each stratum gives the records that are left over to the parts which still need most. All
    # sizes come out exactly then, as in Ryser's construction of a matrix from its margins.
    needed = np.array(sizes, dtype=np.int64) - counts.sum(axis=0)
    left = np.bincount(stratum) - counts.sum(axis=1)
    for row in np.flatnonzero(left):
        parts = np.lexsort((-(whole[row] % count), -needed))[: left[row]]
        counts[row, parts] += 1
        needed[parts] -= 1
    found = np.empty(count, np.int64)
    grouped = order[np.argsort(stratum, kind="stable")]
    found[grouped] = np.repeat(np.tile(np.arange(len(sizes)), len(counts)), counts.ravel())
    return found
