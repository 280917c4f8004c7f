"""Columns of lists as flat arrays, with pyarrow and without it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import polars as pl
import pytest

from gpufeed.records.lists import flatten, ragged

ABC = pl.Enum(["c", "b", "a"])
LISTS: dict[str, pl.Series] = {
    "integers": pl.Series([[1, 2], [], None, [3]], dtype=pl.List(pl.Int32)),
    "booleans": pl.Series([[], [True, False], None, [True]], dtype=pl.List(pl.Boolean)),
    "boxes": pl.Series([[[1, 2]], [], [[3, 4], [5, 6]]], dtype=pl.List(pl.Array(pl.Float64, 2))),
    "points": pl.Series([[[[1, 2]]], []], dtype=pl.List(pl.Array(pl.Float64, (1, 2)))),
    "names": pl.Series([["a", "c"], [], ["b"]], dtype=pl.List(ABC)),
    "nothing": pl.Series([[], []], dtype=pl.List(pl.Array(pl.Float64, 4))),
    "no rows": pl.Series([], dtype=pl.List(pl.Int64)),
}


@pytest.mark.parametrize("library", [True, False], ids=["pyarrow", "without"])
@pytest.mark.parametrize("kind", LISTS)
def test_flat_items(kind: str, library: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not library:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    column = LISTS[kind]
    for part in (column, column[1:], pl.concat([column, column], rechunk=False)):
        lists: list[list[Any]] = [each or [] for each in part.to_list()]
        values, offsets = flatten(part)
        wanted = [np.asarray(item).tolist() for each in lists for item in each]
        if kind == "names":
            wanted = [ABC.categories.to_list().index(name) for name in wanted]
        assert values.tolist() == wanted
        assert np.diff(offsets).tolist() == [len(each) for each in lists]
        assert offsets[0] == 0
        assert values.dtype.kind in "biuf"
        shape = getattr(part.dtype.inner, "shape", ())  # type: ignore[attr-defined]
        assert values.shape == (len(wanted), *shape)
        if kind not in ("names", "nothing", "no rows"):
            assert ragged(values, offsets).to_list() == lists
