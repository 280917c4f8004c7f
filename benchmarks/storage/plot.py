"""The plot of a simulation."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from benchmarks.storage.simulate import Case

__all__ = ["plot"]

_LINES: dict[str, dict[str, Any]] = {
    "lru": {"label": "least recently used", "color": "#e69f00", "linewidth": 1.2},
    "clairvoyant": {"label": "gpufeed", "color": "#56b4e9", "linewidth": 4},
    "bound": {
        "label": "least possible in a node",
        "color": "#000000",
        "linewidth": 1,
        "linestyle": ":",
    },
}
_LOCAL: dict[str, Any] = {
    "label": "gpufeed, NodeLocalSampler",
    "color": "#009e73",
    "linewidth": 1.2,
    "linestyle": "--",
}
_CURVES = (*((False, *line) for line in _LINES.items()), (True, "clairvoyant", _LOCAL))
_MARKS = ("o", "x", "+", "s")


def plot(cases: Sequence[Case]) -> bytes:
    """Draw what goes to the store by the size of the tier, for each number of nodes; as a PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    nodes = sorted({case.nodes for case in cases})
    sizes = sorted({case.records for case in cases})
    columns = min(3, len(nodes))
    lines = -(-len(nodes) // columns)
    figure, axes = pyplot.subplots(
        lines,
        columns,
        figsize=(4 * columns, 3.2 * lines),
        squeeze=False,
        layout="constrained",
        sharex=True,
        sharey=True,
    )
    for axis in axes.flat[len(nodes) :]:
        axis.set_visible(False)
    for axis, count in zip(axes.flat, nodes, strict=False):
        for size, mark in zip(sizes, _MARKS, strict=False):
            here = [case for case in cases if (case.nodes, case.records) == (count, size)]
            for local, name, style in _CURVES:
                drawn = [case for case in here if case.local == local]
                shares = [100 * case.share for case in drawn]
                values = [100 * getattr(case, name) for case in drawn]
                axis.plot(
                    shares,
                    values,
                    marker=mark,
                    markersize=5,
                    markerfacecolor="none",
                    markeredgewidth=1,
                    **style,
                )
        axis.set_title(f"{count:,} node{'s' * (count > 1)}", loc="left", fontsize=10)
        axis.set_xscale("log")
        axis.set_xticks([1, 2, 5, 10, 25, 50, 100], ["1", "2", "5", "10", "25", "50", "100"])
        axis.minorticks_off()
        axis.set_ylim(0, 104)
        axis.grid(alpha=0.3)
    figure.supxlabel("room in each node, % of the data (log scale)")
    figure.supylabel("read from the store, % of an epoch")
    figure.legend(
        handles=[
            *(Line2D([], [], **style) for _, _, style in _CURVES),
            *(
                Line2D(
                    [],
                    [],
                    color="grey",
                    marker=mark,
                    markerfacecolor="none",
                    linestyle="",
                    label=f"{size:,} records",
                )
                for size, mark in zip(sizes, _MARKS, strict=False)
            ),
        ],
        loc="outside upper center",
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100)
    pyplot.close(figure)
    return buffer.getvalue()
