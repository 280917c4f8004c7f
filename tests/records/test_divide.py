"""Random parts and folds of a manifest."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed import ConfigError, Manifest, ManifestError, MemorySource

LABELS = st.lists(st.integers(0, 5), min_size=12, max_size=80)
SEEDS = st.integers(0, 2**64 - 1)


def manifest(labels: list[int]) -> Manifest:
    count = len(labels)
    frame = pl.DataFrame(
        {"path": [f"{row}.jpg" for row in range(count)], "label": labels, "width": 1, "height": 1}
    )
    return Manifest(frame, MemorySource([b""] * count), [f"class {label}" for label in range(7)])


def rows(part: Manifest) -> list[int]:
    return [int(path.removesuffix(".jpg")) for path in part.frame["path"]]


def of_class(part: Manifest, label: int) -> int:
    return int((part.frame["label"] == label).sum())


@given(LABELS, SEEDS, st.lists(st.floats(1, 4), min_size=2, max_size=5), st.booleans())
def test_parts_divide_the_whole(
    labels: list[int], seed: int, weights: list[float], stratify: bool
) -> None:
    whole, fractions = manifest(labels), [each / sum(weights) for each in weights]
    try:
        parts = whole.random_split(fractions, seed=seed, stratify=stratify)
    except ManifestError:  # of the smallest, nothing is left
        assert min(fractions) * len(labels) < 1
        return
    assert sorted(row for part in parts for row in rows(part)) == list(range(len(labels)))
    for part, fraction in zip(parts, fractions, strict=True):
        assert rows(part) == sorted(rows(part))
        assert abs(len(part) - fraction * len(labels)) < 1
        assert part.classes == whole.classes
        for label in set(labels) if stratify else ():
            share = labels.count(label) * len(part) / len(labels)
            assert abs(of_class(part, label) - share) <= 1


@given(LABELS, SEEDS, st.integers(2, 12), st.booleans())
def test_folds_divide_the_whole(labels: list[int], seed: int, folds: int, stratify: bool) -> None:
    whole, validated = manifest(labels), []
    for fold in range(folds):
        train, validation = whole.k_fold(folds, fold=fold, seed=seed, stratify=stratify)
        assert sorted(rows(train) + rows(validation)) == list(range(len(labels)))
        assert len(validation) in (len(labels) // folds, -(-len(labels) // folds))
        for label in set(labels) if stratify else ():
            assert abs(of_class(validation, label) - labels.count(label) / folds) < 2
        validated += rows(validation)
    assert sorted(validated) == list(range(len(labels)))


def test_sizes_are_rounded_by_the_largest_remainder() -> None:
    for count, lengths, sizes in (
        (10, [0.8, 0.2], [8, 2]),
        (100, [0.29, 0.71], [29, 71]),
        (11, [0.5, 0.25, 0.25], [5, 3, 3]),
        (7, [1 / 3, 1 / 3, 1 / 3], [3, 2, 2]),
        (7, (3, 4), [3, 4]),
        (7, [1.0], [7]),
    ):
        parts = manifest([0] * count).random_split(lengths)
        assert [len(part) for part in parts] == sizes


def test_these_very_rows_on_every_machine() -> None:
    _, other = manifest([0, 1] * 10).random_split([0.7, 0.3], seed=7)
    assert rows(other) == [5, 7, 8, 12, 15, 16]
    _, other = manifest([0, 1, 2] * 3).random_split([6, 3], seed=2**64 - 1, stratify=False)
    assert rows(other) == [0, 1, 2]


def test_every_record_is_as_likely() -> None:
    whole, count = manifest([0] * 10), np.zeros(10)
    for seed in range(600):
        count[rows(whole.random_split([0.7, 0.3], seed=seed)[1])] += 1
    assert np.abs(count - 180).max() < 4 * (600 * 0.3 * 0.7) ** 0.5


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        (
            [0.8, 0.1],
            r"lengths is \[0.8, 0.1\], which sums to 0.9.*; it must be fractions above",
        ),
        ([6, 3], "which sums to 9; .*or numbers of images that sum to 10"),
        ([1.5, -0.5], "it must be fractions above 0"),
        ([0.5, 0.5, 0], "it must be fractions above 0"),
        ([], "it must be fractions above 0"),
        ("8, 2", "lengths is '8, 2'"),
        (0.8, "lengths is 0.8"),
        ([True], r"lengths is \[True\]"),
    ],
)
def test_lengths_it_refuses(lengths: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        manifest([0] * 10).random_split(lengths)


def test_what_else_it_refuses() -> None:
    whole = manifest([0] * 10)
    with pytest.raises(ManifestError, match=r"part 1 of \[0.99, 0.01\] has no image of 10"):
        whole.random_split([0.99, 0.01])
    with pytest.raises(ConfigError, match="seed is -1"):
        whole.random_split([0.5, 0.5], seed=-1)
    for folds in (1, 11, 2.0, True):
        with pytest.raises(ConfigError, match=f"folds is {folds}; .* from 2 to 10"):
            whole.k_fold(folds, fold=0)
    for fold in (-1, 5, 0.0):
        with pytest.raises(ConfigError, match=f"fold is {fold}; .* from 0 to 4"):
            whole.k_fold(5, fold=fold)
