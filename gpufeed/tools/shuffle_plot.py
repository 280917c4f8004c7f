"""The plots of a shuffle report: six panels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from gpufeed.errors import MissingExtraError
from gpufeed.tools.shuffle import autocorrelation, classes_per_batch
from gpufeed.tools.shuffle_report import FAR

if TYPE_CHECKING:
    from gpufeed.tools.shuffle_report import Found, Report

__all__ = ["check_plotting", "draw_report"]

# Okabe and Ito's palette, which colour-blind people can distinguish; the markers differ as well.
_STYLES = {
    "gpufeed": {"color": "#0072B2", "marker": "o"},
    "numpy": {"color": "#5A5A5A", "marker": "s"},
    "Grain": {"color": "#D55E00", "marker": "^"},
}
_BAND: dict[str, Any] = {"color": "#DDE3E8", "lw": 0, "zorder": 0, "label": f"within {FAR:g} s.d."}
_DOTS, _BINS = 4000, 60
_SETTINGS: dict[str, Any] = {
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.loc": "upper center",
}


def check_plotting() -> None:
    """Raise `MissingExtraError` if matplotlib is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtraError("matplotlib", extra="plot") from None


def draw_report(report: Report, subject: str) -> Image.Image:
    """Draw a report, 1400 pixels wide.

    Args:
        report: the result of `examine`.
        subject: the name of the data, for the title.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    check_plotting()
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    # Not pyplot, which has global state and windows; not the user's settings, with which texts
    # might overlap.
    with style.context(["default", _SETTINGS]):
        figure: Any = Figure(figsize=(14, 8.6), dpi=100, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
        canvas: Any = FigureCanvasAgg(figure)
        figure.suptitle(
            f"{subject}: sampler {report.kind}, seed {report.seed}, {len(report.labels):,} "
            f"records of {len(np.unique(report.labels)):,} classes",
            fontsize=14,
            fontweight="bold",
        )
        panels = figure.subplots(2, 3)
        for axes, found in zip(panels[0], (report.found[0], report.found[-1]), strict=False):
            _draw_order(axes, found, report)
        _draw_autocorrelation(panels[0, 2], report)
        _draw_differences(panels[1, 0], report)
        _draw_places(panels[1, 1], report)
        _draw_classes(panels[1, 2], report)
        for axes in panels.flat[2:]:
            low, high = axes.get_ylim()
            axes.set_ylim(low, high + 0.3 * (high - low))  # room for the legend
            axes.legend(ncols=2)
        for axes in panels[0, :2]:
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        panels[1, 2].xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        canvas.draw()
        return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


def _draw_order(axes: Any, found: Found, report: Report) -> None:
    """Plot records by position: an even cloud if the order has no structure."""
    order = found.orders.first
    shown = np.linspace(0, len(order) - 1, min(_DOTS, len(order))).astype(int)
    axes.plot(shown, order[shown], ".", markersize=2.2, color=_STYLES[found.name]["color"])
    axes.set(
        title=f"{found.name}: {len(shown):,} positions of epoch 0",
        xlabel="position in the epoch (records)",
        ylabel="record key (row of the manifest)",
        xlim=(0, len(order)),
        ylim=(0, len(report.labels)),
    )


def _draw_autocorrelation(axes: Any, report: Report) -> None:
    bound = FAR / math.sqrt(len(report.found[0].orders.first))
    axes.axhspan(-bound, bound, **_BAND)
    axes.axhline(0, color="#888888", lw=0.8)
    for place, found in enumerate(report.found):
        values = autocorrelation(found.orders.first)
        lags = np.arange(1, len(values) + 1)
        style = _STYLES[found.name]
        axes.plot(lags + 0.16 * (place - 1), values, linestyle="none", label=found.name, **style)
    axes.set(
        title="Autocorrelation of record keys, epoch 0",
        xlabel="lag (records)",
        ylabel="correlation",
        xticks=lags,
    )


def _draw_differences(axes: Any, report: Report) -> None:
    """Plot differences of neighbours: a triangle, since more pairs have small differences."""
    for found in report.found:
        shares = np.diff(found.orders.first) / len(report.labels)
        heights, edges = np.histogram(shares, bins=_BINS, range=(-1, 1), density=True)
        color = _STYLES[found.name]["color"]
        axes.stairs(heights, edges, color=color, lw=1.4, label=found.name)
    axes.plot([-1, 0, 1], [0, 1, 0], color="black", lw=1, ls="--", label="perfect shuffle")
    axes.set(
        title="Differences of successive keys, epoch 0",
        xlabel="difference (share of all records)",
        ylabel="density",
        xlim=(-1, 1),
    )


def _draw_places(axes: Any, report: Report) -> None:
    """Plot the records at fixed positions over many epochs, in equal parts of the manifest."""
    for found in report.found:
        shares = found.places.shares
        middles = (np.arange(len(shares)) + 0.5) / len(shares)
        axes.plot(middles, shares, ms=3.5, lw=0.7, label=found.name, **_STYLES[found.name])
    bound = FAR * report.found[0].places.error
    axes.axhspan(1 - bound, 1 + bound, **_BAND)
    axes.set(
        title="Records at fixed positions over many epochs",
        xlabel="record key (share of all records)",
        ylabel="visits (1 = as expected)",
        xlim=(0, 1),
    )


def _draw_classes(axes: Any, report: Report) -> None:
    """Plot the number of classes in a batch, and its mean for a perfect shuffle."""
    counts = {
        found.name: classes_per_batch(report.labels[found.orders.first], report.batch_size)[0]
        for found in report.found
    }
    every = np.concatenate(list(counts.values()))
    edges = np.arange(every.min(), every.max() + 2) - 0.5
    for name, distinct in counts.items():
        shares = 100 * np.histogram(distinct, bins=edges)[0] / len(distinct)
        axes.stairs(shares, edges, color=_STYLES[name]["color"], lw=1.6, label=name)
    mean = report.expected["classes"][0]
    axes.axvline(mean, ymax=0.75, color="black", lw=1, ls="--", label="expected mean")
    axes.set(
        title=f"Classes in a batch of {report.batch_size}",
        xlabel="distinct classes (count)",
        ylabel="batches (%)",
    )
