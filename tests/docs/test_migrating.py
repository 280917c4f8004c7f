"""Each row of docs/from/{torch,grain}.md: both sides run, and have in common what is said."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpufeed
from gpufeed import Loader, Manifest
from tests.support.loaders import CHAIN
from tests.support.media import make_manifest

grain = pytest.importorskip("grain.python", reason="grain is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")

FOLDER = Path(__file__).parents[2] / "docs" / "from"
PAGE = "".join((FOLDER / f"{name}.md").read_text() for name in ("torch", "grain"))
ROWS = re.findall(r"^\| `(.+)` \| `(.+)` \| the (order|records|sizes) \|$", PAGE, re.M)
SILENT = re.search(r"\| \| Grain's DataLoader .*?\n\n", PAGE, re.S)
"""The table of what differs from Grain without an error."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Twenty-six tiny images: six batches of four, and two records over."""
    return make_manifest(tmp_path_factory.mktemp("small"), [(16, 20)] * 26)


def test_every_row_is_read() -> None:
    assert len(ROWS) == len(re.findall(r"^\| `.* \| the \w+ \|$", PAGE, re.M)) == 17


def keys(batches: Iterable[Any]) -> list[list[int]]:
    """The records of an epoch, batch by batch; a dataset's elements are its record keys."""
    rows = [batch["record_key"] if isinstance(batch, dict) else batch for batch in batches]
    return [np.asarray(row).tolist() for row in rows]


@pytest.mark.parametrize(("theirs", "ours", "same"), ROWS)
def test_both_have_in_common_what_is_said(
    small: Manifest, theirs: str, ours: str, same: str
) -> None:
    names = {
        **vars(torch.utils.data),
        **{name: getattr(gpufeed, name) for name in gpufeed.__all__},
        "Loader": functools.partial(Loader, transforms=CHAIN, device="cpu", num_threads=1),
        "torch": torch,
        "grain": grain,
        "MapDataset": grain.MapDataset,
        "dataset": list(range(26)),
        "source": range(26),
        "keys": [5, 3, 17, 20, 11, 2],
        "weights": np.arange(1.0, 27.0),
        "manifest": small,
    }
    wanted, got = (keys(eval(side, names)) for side in (theirs, ours))  # noqa: S307 - the page's
    assert [len(batch) for batch in got] == [len(batch) for batch in wanted]
    if same == "order":
        assert got == wanted
    elif same == "records":
        assert got != wanted
        assert sorted(itertools.chain(*got)) == sorted(itertools.chain(*wanted))


def test_one_order_for_all_epochs_augments_anew(small: Manifest) -> None:
    """As tf.data does with reshuffle_each_iteration=False."""
    page = (FOLDER / "tfdata.md").read_text()
    (code,) = re.findall(r"reshuffle_each_iteration=False\)` \| `(.*)` \|$", page, re.M)
    ours = functools.partial(Loader, transforms=CHAIN, device="cpu", num_threads=1)
    with eval(code, {"Loader": ours, "np": np, "train": small}) as loader:  # noqa: S307 - the page's
        epochs = [list(loader) for _ in range(3)]
    assert keys(epochs[0]) == keys(epochs[1]) == keys(epochs[2]) != [list(range(16))]
    for one, other in itertools.combinations(epochs, 2):
        same = [
            np.array_equal(*images)
            for images in zip(one[0]["image"], other[0]["image"], strict=True)
        ]
        assert not all(same)


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Ten tiny images: two batches of four, and two records over."""
    return make_manifest(tmp_path_factory.mktemp("ten"), [(16, 20)] * 10)


def theirs(sampler: Any, **options: Any) -> Any:
    """Grain's loader of the records of a sampler."""
    return grain.DataLoader(
        data_source=range(10), sampler=sampler, operations=[grain.Batch(4, **options)]
    )


def first_batches(loader: Any) -> list[list[int]]:
    return keys(next(iter(loader)) for _ in range(2))


def shards(ten: Manifest, ours: Any, sampler: Any) -> tuple[Any, Any]:
    """The records of two shards as Grain has them, and as we have them in batches of two each."""
    options = [grain.ShardOptions(index, 2) for index in range(2)]
    alone = [list(itertools.chain(*keys(theirs(sampler(10, each))))) for each in options]
    whole = sampler(10)
    return alone, [keys(ours(ten, sampler=whole, batch_size=2, shard=each)) for each in options]


def test_what_differs_from_grain_without_an_error(ten: Manifest) -> None:
    """Row by row of the table."""
    ours = functools.partial(
        Loader, transforms=CHAIN, batch_size=4, device="cpu", num_threads=1, last_batch="drop"
    )
    thrice = functools.partial(grain.IndexSampler, 10, shuffle=True, seed=3, num_epochs=3)
    order = [thrice()[place].record_key for place in range(30)]
    batches = [order[place : place + 4] for place in range(0, 30, 4)]
    loader = theirs(thrice())
    assert first_batches(loader) == [batches[0]] * 2
    assert keys(loader) == keys(loader) == batches
    assert first_batches(ours(ten, sampler=thrice())) == batches[:2]
    loader = ours(ten, sampler=thrice())
    epochs = [[order[e + place : e + place + 4] for place in (0, 4)] for e in (0, 10, 20)]
    assert [keys(loader) for _ in range(3)] == epochs

    plain = keys(theirs(grain.SequentialSampler(10)))
    assert plain == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert keys(theirs(grain.SequentialSampler(10), drop_remainder=True)) == plain[:2]
    endless = gpufeed.SequentialSampler(10)
    for last_batch, expected in (("drop", plain[:2]), ("partial", plain)):
        loader = ours(ten, sampler=endless, last_batch=last_batch)
        assert [keys(loader) for _ in range(2)] == [expected] * 2
    loader = ours(ten, sampler=gpufeed.SequentialSampler(10, num_epochs=1))
    keys(loader)
    with pytest.raises(gpufeed.EpochsExhausted):
        iter(loader)

    blocks, parts = shards(ten, ours, functools.partial(grain.IndexSampler, num_epochs=1))
    assert blocks == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert parts == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    every_second, again = shards(ten, ours, grain.SequentialSampler)
    assert every_second == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    assert again == parts
    for drop_remainder in (False, True):
        options = [grain.ShardOptions(shard, 2, drop_remainder) for shard in range(2)]
        for sampler in (grain.SequentialSampler, functools.partial(grain.IndexSampler, seed=0)):
            limit = {} if sampler is grain.SequentialSampler else {"num_epochs": 1}
            fed = [keys(theirs(sampler(9, each, **limit))) for each in options]
            assert len({*itertools.chain(*itertools.chain(*fed))}) == 8
        nine = [
            keys(ours(ten[:9], batch_size=2, shard=each, last_batch="partial")) for each in options
        ]
        assert len({*itertools.chain(*itertools.chain(*nine))}) == 9

    assert SILENT is not None
    assert SILENT[0].count("\n") - 3 == 9, "each row has its lines here"
