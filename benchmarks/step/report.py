"""A table and a plot of what training steps felt, made from the JSON alone.

python -m benchmarks.step.report training.json
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.step.feeds import CEILING
from benchmarks.step.outcome import Fed, Middle, Outcome, Row

__all__ = ["plot", "show", "table"]

_TRAINED, _WAITED, _UTILISED = "#56b4e9", "#e69f00", "#1c1e21"
_COLOURS = {"gpufeed": "#0072b2", CEILING.name: "#999999"}
"""Okabe and Ito's, as in the comparison."""


def table(outcome: Outcome) -> Table:
    """Return the rows for a console."""
    setting = outcome.setting
    shown = Table(
        title=f"\n{setting.model} in {setting.precision} on {setting.device}, "
        f"{setting.batch_size} a batch, {setting.size} x {setting.size}; "
        f"medians (least to most) of {setting.rounds} rounds of {setting.steps} steps",
        title_justify="left",
    )
    shown.add_column("feed")
    columns = ["images/s", "over synthetic", "waiting", "CPU ms/image", "GPU busy", "loss"]
    for column in columns:
        shown.add_column(column, justify="right")
    for row in outcome.rows():
        shown.add_row(
            f"{row.name} ({row.does})" if row.does else row.name,
            _cell(row.images_per_second, ",.0f"),
            _cell(row.over_ceiling, ".2f"),
            _cell(row.waiting_share, ".1%"),
            f"{row.cpu_ms.median:.2f}",
            f"{row.utilisation.median:.0%}" if row.utilisation else "-",
            f"{row.loss:.2f}",
        )
    if outcome.absent:
        shown.caption = "\n".join(f"absent: {each.name}: {each.why}" for each in outcome.absent)
        shown.caption_justify = "left"
    return shown


def _cell(found: Middle, form: str) -> str:
    return f"{found.median:{form}} ({found.least:{form}} to {found.most:{form}})"


def show(outcome: Outcome) -> None:
    """Print the table; where there is no terminal, as wide as it is."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(table(outcome))


def plot(outcome: Outcome, path: Path) -> None:
    """Write a PNG: shares of the ceiling's images/s, and below how one round of each went."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    setting, rows = outcome.setting, outcome.rows()
    figure, (above, below) = pyplot.subplots(
        2,
        1,
        figsize=(12, 2.6 + 0.95 * len(rows)),
        height_ratios=(0.4 * len(rows) + 0.4, 0.55 * len(rows) + 0.4),
        layout="constrained",
    )
    figure.suptitle(
        f"What a training step feels: {setting.model}, {setting.batch_size} a batch, "
        f"{setting.size} x {setting.size}, on {setting.device}",
        x=0.01,
        ha="left",
    )
    _bars(above, rows)
    _timelines(below, outcome.feeds)
    for axis in (above, below):
        axis.set_yticks(
            range(len(rows)), ["\n".join(filter(None, [row.name, row.does])) for row in rows]
        )
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _bars(axis: Any, rows: list[Row]) -> None:
    for place, row in enumerate(rows):
        share = row.over_ceiling
        axis.barh(place, share.median, height=0.7, color=_COLOURS.get(row.name, _TRAINED))
        axis.plot([share.least, share.most], [place, place], color=_UTILISED, linewidth=1)
        # Beside the axes, where no line can run through it.
        axis.text(
            1.01,
            place,
            f"{share.median:.2f}  ({row.images_per_second.median:,.0f} images/s)\n"
            f"{row.waiting_share.median:.0%} of the time waiting",
            transform=axis.get_yaxis_transform(),
            va="center",
            fontsize=9,
        )
    axis.set_xlim(0, 1.15 * max(row.over_ceiling.median for row in rows))
    axis.set_xlabel(
        "images/s, of those with synthetic batches: median, and the range of all rounds"
    )


def _timelines(axis: Any, feeds: list[Fed]) -> None:
    """Each feed's typical round from left to right: where it trained, and where it waited."""
    sampled = False
    for place, fed in enumerate(feeds):
        turn, now = fed.typical, 0.0
        trained, waited = [], []
        for seconds, waiting in zip(turn.step_s, turn.waited_s, strict=True):
            waited.append((now, waiting))
            trained.append((now + waiting, seconds - waiting))
            now += seconds
        axis.broken_barh(trained, (place - 0.35, 0.7), color=_TRAINED, linewidth=0)
        axis.broken_barh(waited, (place - 0.35, 0.7), color=_WAITED, linewidth=0)
        if turn.utilisation:
            sampled = True
            axis.plot(
                [when for when, _ in turn.utilisation],
                [place + 0.35 - 0.7 * share for _, share in turn.utilisation],
                color=_UTILISED,
                linewidth=1,
            )
    axis.set_xlim(0, None)
    axis.set_xlabel(
        "seconds, in each feed's round of the median rate; the same number of images each"
    )
    _legend(axis, sampled)


def _legend(axis: Any, sampled: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(color=_TRAINED, label="trains"),
        Patch(color=_WAITED, label="waits for its batch"),
    ]
    if sampled:
        handles.append(Line2D([], [], color=_UTILISED, label="GPU busy, 0 to 100 %"))
    axis.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)


if __name__ == "__main__":
    given = Path(sys.argv[1])
    found = Outcome.load(given)
    plot(found, given.with_suffix(".png"))
    show(found)
