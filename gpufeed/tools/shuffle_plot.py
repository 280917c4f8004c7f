"""The picture of a shuffle report: six panels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from gpufeed.errors import MissingExtraError
from gpufeed.tools.shuffle import normal_bound, part_sizes

if TYPE_CHECKING:
    from gpufeed.tools.shuffle_report import Figures, Report

__all__ = ["check_plotting", "draw_report"]

# Of Okabe and Ito's palette, which the colour-blind can tell apart; the markers differ as well.
_STYLES = {
    "gpufeed": {"color": "#0072B2", "marker": "o"},
    "numpy": {"color": "#5A5A5A", "marker": "s"},
    "Grain": {"color": "#D55E00", "marker": "^"},
}
_BAND = "#DDE3E8"
_INCHES, _DPI = (14.0, 8.6), 100
_PAD = 0.12
"""Inches around a panel."""
_DOTS = 4000
_BINS = 60
_ROOM = 1.35
"""Height of a panel over that of what it shows, so that a legend lies above."""


def check_plotting() -> None:
    """Raise `MissingExtraError` if matplotlib is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtraError("matplotlib", extra="plot") from None


def draw_report(report: Report, subject: str) -> Image.Image:
    """Draw a report, 1400 pixels wide.

    Args:
        report: from `examine`.
        subject: what the orders are of, for the title.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    check_plotting()
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    # Not pyplot, which has a state and a window of its own; and not the user's settings, with which
    # texts might overlap.
    with rc_context(rc=_settings()):
        figure = Figure(
            figsize=_INCHES, dpi=_DPI, layout=ConstrainedLayoutEngine(w_pad=_PAD, h_pad=_PAD)
        )
        canvas: Any = FigureCanvasAgg(figure)
        figure.suptitle(
            f"Order of {subject}: sampler {report.kind}, seed {report.seed}\n",
            fontsize=14,
            fontweight="bold",
        )
        figure.text(
            0.5,
            0.948,
            f"{report.num_records:,} records of {report.num_classes:,} classes, epochs 0 to "
            f"{report.epochs - 1}, batches of {report.batch_size}",
            ha="center",
            va="center",
            fontsize=11,
            color="#444444",
        )
        panels = figure.subplots(2, 3)
        ours, beside = report.figures[0], report.figures[-1]
        _draw_order(panels[0, 0], ours, report)
        _draw_order(panels[0, 1], beside, report)
        _draw_autocorrelation(panels[0, 2], report)
        _draw_differences(panels[1, 0], report)
        _draw_records(panels[1, 1], report)
        _draw_classes(panels[1, 2], report)
        canvas.draw()
        return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


def _settings() -> Any:
    from matplotlib import rcParamsDefault

    return {
        **{name: value for name, value in rcParamsDefault.items() if name != "backend"},
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "legend.fontsize": 9,
    }


def _counts(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _draw_order(axes: Any, found: Figures, report: Report) -> None:
    """Which record comes when: an even cloud, where the order has no structure."""
    dots = min(_DOTS, found.looked)
    shown = np.sort(np.random.default_rng(0).choice(found.looked, dots, replace=False))
    axes.plot(
        shown,
        found.first[shown],
        linestyle="none",
        marker=".",
        markersize=2.2,
        color=_STYLES[found.name]["color"],
    )
    axes.set(
        title=f"{found.name}: {dots:,} positions of epoch 0",
        xlabel="position in the epoch (records)",
        ylabel="record key (row of the manifest)",
        xlim=(0, found.looked),
        ylim=(0, report.num_records),
    )
    _counts(axes.xaxis)
    _counts(axes.yaxis)


def _draw_autocorrelation(axes: Any, report: Report) -> None:
    """Epoch 0's, with the band that lags of a perfect shuffle keep to."""
    lags = np.arange(1, report.figures[0].autocorrelation.shape[1] + 1)
    # Of the source that was looked at least: what lies outside is too far off for any.
    bound = normal_bound(len(lags)) / math.sqrt(min(found.looked for found in report.figures))
    axes.axhspan(-bound, bound, color=_BAND, lw=0, label="999 of 1,000 shuffles")
    axes.axhline(0, color="#888888", lw=0.8)
    for place, found in enumerate(report.figures):
        axes.plot(
            lags + 0.16 * (place - 1),
            found.autocorrelation[0],
            linestyle="none",
            markersize=6,
            label=found.name,
            **_STYLES[found.name],
        )
    low, high = axes.get_ylim()
    axes.set(
        title="Autocorrelation of record keys, epoch 0",
        xlabel="lag (records)",
        ylabel="correlation",
        xticks=lags,
        ylim=(low, high + 0.3 * (high - low)),
    )
    axes.legend(loc="upper center", ncols=2)


def _draw_differences(axes: Any, report: Report) -> None:
    """Of neighbours: a triangle, since small differences can be made of more pairs."""
    for found in report.figures:
        shares = np.diff(found.first) / report.num_records
        heights, edges = np.histogram(shares, bins=_BINS, range=(-1, 1), density=True)
        axes.stairs(heights, edges, color=_STYLES[found.name]["color"], lw=1.4, label=found.name)
    axes.plot([-1, 0, 1], [0, 1, 0], color="black", lw=1, ls="--", label="perfect shuffle")
    axes.set(
        title="Differences of successive keys, epoch 0",
        xlabel="difference (share of all records)",
        ylabel="density",
        xlim=(-1, 1),
        xticks=(-1, -0.5, 0, 0.5, 1),
    )
    axes.set_ylim(0, _ROOM * axes.get_ylim()[1])
    axes.legend(loc="upper center", ncols=2)


def _draw_records(axes: Any, report: Report) -> None:
    """Records at some places over many epochs, in equal parts of the manifest."""
    counted = [(found.name, found.records) for found in report.figures if found.records]
    least: float = math.inf
    for name, found in counted:
        parts = len(found.counts)
        expected = found.draws * found.columns * part_sizes(report.num_records, parts)
        shares = found.counts / (expected / report.num_records)
        least = min(least, found.draws * found.columns / parts)
        middles = (np.arange(parts) + 0.5) / parts
        axes.plot(middles, shares, ms=3.5, lw=0.7, label=name, **_STYLES[name])
    if counted:
        deviations = normal_bound(_most_parts(counted)) / math.sqrt(least)
        axes.axhspan(
            1 - deviations,
            1 + deviations,
            color=_BAND,
            lw=0,
            label="999 of 1,000 shuffles",
            zorder=0,
        )
        axes.set_ylim(
            min(axes.get_ylim()[0], 1 - 1.3 * deviations),
            max(axes.get_ylim()[1], 1 + 1.3 * deviations),
        )
    low, high = axes.get_ylim()
    first = counted[0][1] if counted else None
    what = f"{first.columns} places" if first else "places"
    axes.set(
        title=f"Records at {what} over many epochs",
        xlabel="record key (share of all records)",
        ylabel="visits (1 = as expected)",
        xlim=(0, 1),
        ylim=(low, high + 0.3 * (high - low)),
    )
    axes.legend(loc="upper center", ncols=2)


def _most_parts(counted: list[tuple[str, Any]]) -> int:
    return max(len(found.counts) for _, found in counted)


def _draw_classes(axes: Any, report: Report) -> None:
    """How many classes batches have, and the mean that drawing without replacement gives."""
    low = min(int(found.classes.min()) for found in report.figures)
    high = max(int(found.classes.max()) for found in report.figures)
    # Of one class to a bin, or of several where the samplers lie far apart.
    edges = np.arange(low, high + 2) - 0.5
    mean, deviation = report.classes
    axes.axvspan(
        mean - deviation,
        mean + deviation,
        ymax=1 / _ROOM,
        color=_BAND,
        lw=0,
        label="expected mean, 1 s.d.",
    )
    axes.axvline(mean, ymax=1 / _ROOM, color="black", lw=1, ls="--")
    for found in report.figures:
        counts, _ = np.histogram(found.classes, bins=edges)
        axes.stairs(
            100 * counts / len(found.classes),
            edges,
            color=_STYLES[found.name]["color"],
            lw=1.6,
            label=found.name,
        )
    axes.set(
        title=f"Classes in a batch of {report.batch_size}",
        xlabel="distinct classes (count)",
        ylabel="batches (%)",
    )
    _counts(axes.xaxis)
    axes.set_ylim(0, _ROOM * axes.get_ylim()[1])
    axes.legend(loc="upper center", ncols=2)
