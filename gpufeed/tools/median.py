"""The median of several rounds of a measurement, with a confidence interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Median", "median_of"]

_MIN_COVERAGE = 0.9
"""The least coverage of an interval, if there are enough rounds for it."""


@dataclass(frozen=True)
class Median:
    """A median and its confidence interval.

    Attributes:
        median: the median of the rounds.
        low: the lower end of the interval, one of the rounds.
        high: the upper end of the interval, one of the rounds.
        coverage: the probability, 0 to 1, that the interval contains the true median if the rounds
            are independent.
        rounds: the number of rounds.
    """

    median: float
    low: float
    high: float
    coverage: float
    rounds: int


def median_of(values: Sequence[float]) -> Median:
    """Return the median of some rounds, with its distribution-free confidence interval.

    The interval is the narrowest from the k-th smallest to the k-th largest round with a coverage
    of at least 90 %. For 5 rounds it goes from the smallest to the largest (94 %), for 11 from the
    third smallest to the third largest (93 %). For four or fewer it is the whole range, with less
    coverage. Successive rounds are not quite independent, so the true uncertainty is larger.

    Raises:
        ValueError: there are no rounds.
    """
    if not values:
        raise ValueError("there are no rounds to take the median of")
    ordered, count = sorted(values), len(values)
    inner = range((count - 1) // 2, 0, -1)
    cut = next((k for k in inner if _coverage(count, k) >= _MIN_COVERAGE), 0)
    return Median(
        median=statistics.median(ordered),
        low=ordered[cut],
        high=ordered[count - 1 - cut],
        coverage=_coverage(count, cut),
        rounds=count,
    )


def _coverage(count: int, cut: int) -> float:
    """Return the coverage of the interval that leaves out `cut` rounds at either end."""
    outside = sum(math.comb(count, below) for below in range(cut + 1))
    return max(1 - 2 * outside / float(2**count), 0.0)
