"""The interval of a median, by order alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed.tools.median import median_of


def test_known_intervals() -> None:
    """Those of tables of the sign test."""
    for count, rank, coverage in (
        (1, 1, 0.0),
        (2, 1, 0.5),
        (4, 1, 0.875),
        (5, 1, 0.9375),
        (7, 1, 0.9844),
        (8, 2, 0.9297),
        (11, 3, 0.9346),
        (21, 7, 0.9216),
    ):
        found = median_of(range(count, 0, -1))
        assert (found.low, found.high) == (rank, count + 1 - rank), count
        assert found.coverage == pytest.approx(coverage, abs=1e-4)
        assert (found.median, found.rounds) == ((count + 1) / 2, count)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_the_median_lies_within(values: list[float]) -> None:
    found = median_of(values)
    assert min(values) <= found.low <= found.median <= found.high <= max(values)
    assert found.coverage >= 0.9 or found.rounds < 5


def test_an_interval_holds_the_true_median_as_often_as_it_says() -> None:
    drawn = np.random.default_rng(0).exponential(size=(4000, 11))
    found = [median_of(row.tolist()) for row in drawn]
    held = np.mean([each.low <= np.log(2) <= each.high for each in found])
    assert held == pytest.approx(found[0].coverage, abs=0.015)


def test_no_round_is_an_error() -> None:
    with pytest.raises(ValueError, match="there are no rounds to take the median of"):
        median_of([])
