"""The view of running loaders for a terminal: a table for each job, and where its time goes."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gpufeed._util.sanitize import printable
from gpufeed.live.snapshots import Snapshot
from gpufeed.live.words import limit, time_left

__all__ = ["view"]

_COLOURS = ("cyan", "blue", "green", "yellow", "magenta")
_SILENT_SECONDS = 5


def view(snapshots: Sequence[Snapshot]) -> RenderableType:
    """Return a view of loaders; the ranks of one job stand in one table."""
    if not snapshots:
        return Text("No process of yours on this machine iterates over a loader.")
    parts: list[RenderableType] = []
    shown = ""
    for _, group in itertools.groupby(sorted(snapshots, key=_order), _job):
        ranks = list(group)
        command = _command(ranks[0]["pid"])
        if command != shown:
            parts.append(_line(command, "bold"))
            shown = command
        parts += [Padding(part, (0, 0, 0, 2)) for part in _job_parts(ranks)]
        parts.append(Text())
    return Group(*parts[:-1])


def _job(each: Snapshot) -> tuple[int, ...]:
    """Return what the loaders of the ranks of a job have in common."""
    pid = each["pid"] if each["shard_count"] == 1 else 0
    return each["parent"], pid, each["number"], each["shard_count"]


def _order(each: Snapshot) -> tuple[int, ...]:
    return *_job(each), each["shard_index"]


def _command(pid: int) -> str:
    """Return the command line of a process without its interpreter."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        words = []
    if len(words) > 1 and Path(words[0]).name.startswith("python"):
        del words[0]
    return printable(" ".join(words)) or f"process {pid}"


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _job_parts(ranks: Sequence[Snapshot]) -> Iterator[RenderableType]:
    first = ranks[0]
    devices = " ".join(sorted({each["device"] for each in ranks}))
    what = f"{first['images']:,} images of {printable(first['source'])}"
    yield _line(f"{what}, {devices}, {first['threads']} threads", "dim")
    yield _table(ranks)
    stages = {
        name: sum(each["recent"]["stages"][name] for each in ranks)
        for name in first["recent"]["stages"]
    }
    yield _Shares(stages)
    if first["tiers"]:
        each_rank = [(*e["stats"]["cache_hits"], e["stats"]["fetched_images"]) for e in ranks]
        counts = [sum(each) for each in zip(*each_rank, strict=True)]
        names = [*first["tiers"], "source"]
        total = sum(counts) or 1
        shares = (f"{n / total:.0%} {name}" for name, n in zip(names, counts, strict=True))
        yield _line(f"images from {', '.join(shares)}")
    bad = sum(each["stats"]["bad_images"] for each in ranks)
    if bad:
        yield _line(f"{bad:,} bad images in this epoch", "yellow")
    words = limit(_waiting(ranks), stages)
    yield _line(f"{words[0].upper()}{words[1:]}.", "bold")


def _waiting(ranks: Sequence[Snapshot]) -> float:
    return statistics.fmean(each["recent"]["waiting_share"] for each in ranks)


def _table(ranks: Sequence[Snapshot]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, expand=True, header_style="dim")
    for name in ("PID", "shard", "images/s", "waiting", "ready", "epoch"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", ratio=1)
    for name in ("done", "left"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in ranks:
        stats, recent = each["stats"], each["recent"]
        silent = time.monotonic() - each["time"]
        done, steps = stats["step_in_epoch"], max(1, stats["steps_in_epoch"])
        table.add_row(
            str(each["pid"]),
            f"{each['shard_index']} of {each['shard_count']}",
            f"{recent['images_per_second']:,.0f}",
            f"{recent['waiting_share']:.0%}",
            str(stats["ready"]),
            str(stats["epoch"]),
            ProgressBar(steps, done, complete_style="bold", finished_style="bold"),
            f"{done / steps:.0%}",
            f"silent {silent:.0f} s" if silent > _SILENT_SECONDS else time_left(each),
        )
    if len(ranks) > 1:
        total = sum(each["recent"]["images_per_second"] for each in ranks)
        table.add_row("total", "", f"{total:,.0f}", f"{_waiting(ranks):.0%}", style="bold")
    return table


class _Shares:
    """A bar of shares in colours, and what they are."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        total = sum(self._seconds.values()) or 1.0
        bar, legend = Text(), Text(no_wrap=True)
        end = drawn = 0.0
        for (name, seconds), colour in zip(self._seconds.items(), _COLOURS, strict=True):
            end += seconds / total * options.max_width
            bar.append("█" * (round(end) - round(drawn)), colour)
            drawn = end
            legend.append("■ ", colour).append(f"{name.replace('_', ' ')} {seconds / total:.0%}   ")
        if console.color_system is not None:  # else all is of one colour
            yield bar
        yield legend
