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


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Twenty-six tiny images: six batches of four, and two records over."""
    return make_manifest(tmp_path_factory.mktemp("small"), [(16, 20)] * 26)


def test_every_row_is_read() -> None:
    assert len(ROWS) == len(re.findall(r"^\| `", PAGE, re.M)) == 17


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
