"""The plots of a comparison."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from benchmarks.compare.results import Cache, Result
from benchmarks.compare.rows import COLUMNS, READY, Column, Row, rows

__all__ = ["plot"]

_COLOURS = {"ours": "#0072b2", "equal": "#56b4e9", "less": "#e69f00", "limit": "#999999"}
"""Okabe and Ito's, which the colour-blind can tell apart."""

_ROOM = 1.05
"""Where a bar is cut off, as a part of the longest that is not."""


def plot(results: Sequence[Result]) -> bytes:
    """Draw images/s and CPU time of every contender, with their intervals; returns a PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    shown = [(result, cache) for result in results for cache in result.caches]
    tallest = max((len(result.entries) for result, _ in shown), default=1)
    figure, axes = pyplot.subplots(
        max(len(shown), 1),
        2,
        figsize=(14, max(0.32 * tallest + 1.2, 2.4) * max(len(shown), 1)),
        squeeze=False,
        layout="constrained",
    )
    drawn = [column for column in COLUMNS if column.head in ("images/s", "CPU ms an image")]
    for line, (result, cache) in zip(axes, shown, strict=False):
        listed = rows(result, cache)[::-1]
        for axis, column in zip(line, drawn, strict=True):
            _bars(axis, listed, column, named=axis is line[0])
        line[0].set_title(_title(result, cache), loc="left")
    figure.legend(
        handles=[
            Patch(color=_COLOURS["ours"], label="gpufeed"),
            Patch(color=_COLOURS["equal"], label="the same work"),
            Patch(color=_COLOURS["less"], label="less work"),
            Patch(color=_COLOURS["limit"], label="limits: part of the work"),
        ],
        loc="outside upper right",
        ncols=4,
        frameon=False,
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100)
    pyplot.close(figure)
    return buffer.getvalue()


def _title(result: Result, cache: Cache) -> str:
    return f"{result.work}{', files not in the page cache' if cache == 'cold' else ''}"


def _bars(axis: Any, listed: Sequence[Row], column: Column, *, named: bool) -> None:
    """Draw a bar for each row, its interval over it, its figure behind it."""
    medians = [column.value(row) for row in listed]
    compared = [
        found.high
        for row, found in zip(listed, medians, strict=True)
        if found is not None and row.name != READY
    ]
    most = max(compared, default=0.0) or 1.0  # CPU time of a short round may be 0
    for place, (row, found) in enumerate(zip(listed, medians, strict=True)):
        if found is None:
            continue
        whole = found.high <= most * _ROOM
        axis.barh(place, min(found.median, most * _ROOM), color=_COLOURS[row.kind])
        if whole:
            ends = [[found.median - found.low], [found.high - found.median]]
            axis.errorbar(found.median, place, xerr=ends, color="black", linewidth=1, capsize=2)
        behind = found.high if whole else most * _ROOM
        text = format(found.median, column.form)
        axis.text(behind, place, f"  {text}", va="center", fontsize=8)
    axis.set_xlim(0, most * 1.22)
    axis.set_ylim(-0.6, len(listed) - 0.4)
    axis.set_xlabel(column.head)
    axis.set_yticks(range(len(listed)), [row.name for row in listed] if named else [])
    axis.tick_params(axis="y", labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
