"""Draws of 100,000 records against torchvision's rules: Kolmogorov and Smirnov's test of each.

Policies draw from a few outcomes: test_policies.py compares how often each comes. Where torchvision
itself is installed, `python -m tests.support.against_torchvision` compares with that.
"""

from __future__ import annotations

import numpy as np
import pytest

from gpufeed import transforms as tf
from tests.support.differences import kinds
from tests.support.draw_cases import CASES, COUNT, LIMIT, ours, statistic

POLICIES = (tf.RandAugment, tf.TrivialAugmentWide, tf.AutoAugment, tf.AugMix, tf.TimmRandAugment)
# What torchvision does not draw for.
FIXED = (
    *(tf.CenterCrop, tf.Resize, tf.ResizeLongest, tf.Pad, tf.PadToSquare, tf.Lambda),
    *(tf.Normalize, tf.ToDtype, tf.SoftLabels, tf.Compose, tf.Views, tf.FiveCrop, tf.TenCrop),
)


@pytest.mark.parametrize("name", CASES)
def test_draws_are_spread_like_torchvisions(name: str) -> None:
    found = ours(name)
    wanted = CASES[name].rule(np.random.default_rng(7), COUNT)
    assert found.keys() == wanted.keys()
    for each, values in found.items():
        assert len(values) == COUNT
        assert statistic(values, wanted[each]) < LIMIT, each
    # And not alone, but together.
    names = sorted(name for name in found if np.std(found[name]) > 0)
    correlations = [
        np.atleast_2d(np.corrcoef([np.asarray(side[name], float) for name in names]))
        for side in (found, wanted)
    ]
    assert np.abs(correlations[0] - correlations[1]).max() < 6 / np.sqrt(COUNT), names


def test_every_transform_that_draws_is_compared() -> None:
    compared = {type(case.transform) for case in CASES.values()}
    # The margin of boxes has a test beside those of detectors.
    assert set(kinds()) - compared - {*POLICIES, *FIXED} == {tf.BoxCrop}


def test_another_spread_would_show() -> None:
    """By a hundredth of the range already."""
    drawn = np.random.default_rng(0).random((2, COUNT))
    assert statistic(*drawn) < LIMIT
    assert statistic(drawn[0], drawn[1] * 0.98) > LIMIT
    assert statistic(drawn[0] < 0.5, drawn[1] < 0.515) > LIMIT
