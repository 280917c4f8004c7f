"""Which decoder takes a record: by its path and size alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from gpufeed.open import choice
from gpufeed.open.choice import Choice
from gpufeed.records import Manifest

PATHS = [f"{label:03}.Some_bird/{number:05}.jpg" for label in range(40) for number in range(100)]
SHARES: Any = {"threads": 0.15, "cuda": 0.6, "hardware": 0.25}
SMALL = (100, 80)


def chooser(paths: list[str], sizes: Any, shares: Any) -> Choice:
    height, width = zip(*sizes, strict=True)
    frame = pl.DataFrame({"path": paths, "label": 0, "height": height, "width": width})
    return Choice(shares, Manifest(frame, "/", ["bird"]))


def choose(paths: list[str], keys: list[int], shares: Any = SHARES, sizes: Any = None) -> list[str]:
    sizes = np.array([SMALL] * len(paths) if sizes is None else sizes)
    return [*chooser(paths, sizes, shares).of(np.array(keys), sizes[keys])]


def test_shares_are_kept() -> None:
    kinds = choose(PATHS, [*range(len(PATHS))])
    for kind, share in SHARES.items():
        deviation = (share * (1 - share) / len(PATHS)) ** 0.5
        assert abs(kinds.count(kind) / len(PATHS) - share) < 3 * deviation


def test_a_subset_keeps_its_choices() -> None:
    rng = np.random.default_rng(0)
    whole = dict(zip(PATHS, choose(PATHS, [*range(len(PATHS))]), strict=True))
    some = [PATHS[place] for place in rng.permutation(len(PATHS))[:500]]
    keys = rng.integers(0, 500, 64).tolist()
    assert choose(some, keys) == [whole[some[key]] for key in keys]


def test_choices_are_the_same_on_every_machine() -> None:
    """And in every version: BLAKE2b of the path, as `b2sum -l 64` has it."""
    known = {"a.jpg": "fe47f0026e12a789", "Vögel/ö.jpg": "c5737e07876fea84"}
    for path, digest in known.items():
        assert choice._fraction(path) == int(digest, 16) / 2**64


@pytest.mark.parametrize("shares", [{"cuda": 1.0}, {"cuda": 0.5, "hardware": 0.5}, SHARES])
def test_large_images_go_to_threads(shares: Any) -> None:
    sizes = [SMALL, (1 << 13, 1 << 11), (1 << 12, (1 << 12) + 1), (1, (1 << 24) + 1)]
    paths = ["0", "1", "2", "3"]
    kinds = choose(paths, [3, 0, 1, 2], shares, sizes)
    assert kinds == ["threads", *choose(paths, [0, 1], shares), "threads"]
    chosen = chooser(paths, sizes, shares)
    assert set(chosen.kinds) == {"threads", *shares}
    assert chosen.largest == 1 << 24


def test_a_manifest_without_large_images_needs_no_threads() -> None:
    assert chooser(["0"], [SMALL], {"cuda": 1.0}).kinds == ("cuda",)


def test_the_graph_of_the_cpu_alone_keeps_large_images() -> None:
    assert choose(["0"], [0], {"graph": 1.0}, [(1 << 13, 1 << 13)]) == ["graph"]
