"""What bounds a running loader now, from the time that its stages took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpufeed._util.spans import at_work
from gpufeed.live.words import HELD_UP

if TYPE_CHECKING:
    from gpufeed.feed.stats import Stats

__all__ = ["Report", "report_of"]

_SAID = {
    "plan": "planning batches, which one thread does",
    "read": "reading images",
    "open": "decoding and resizing images on threads",
    "run": "the DALI graph",
    "hand_over": "making arrays of the framework",
}


@dataclass(frozen=True)
class Report:
    """What bounds the current pass of a loader; `str` says it in a few lines.

    Attributes:
        stats: the figures it follows from.
        bound: the stage that is busy for the largest share of the time; "consumer" if the consumer
            hardly waits; "" before the first batches.
        busy: share of the time that each stage is at work on at least one batch, 0 to 1. Stages
            work at the same time on different batches.
    """

    stats: Stats
    bound: str
    busy: Mapping[str, float]

    def __str__(self) -> str:
        stats = self.stats
        if not self.bound:
            return "No batch has been handed out yet."
        speed = (
            f"{stats.images_per_second:,.0f} images/s; the consumer waits "
            f"{100 * stats.waiting_share:.0f} % of the time, and {stats.ready} batches are ready."
        )
        said = "The loader is not the limit: the consumer hardly waits for it."
        if self.bound != "consumer":
            said = f"The loader is the limit, and most of all {_SAID[self.bound]}."
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in self.busy.items())
        return (
            f"{said}\n{speed}\nBusy: {shares}.\n"
            "`gpufeed doctor DATA`, or gpufeed.doctor(manifest), says what to change."
        )


def report_of(stats: Stats, readers: int) -> Report:
    """Return the report of a pass.

    Args:
        stats: its figures.
        readers: batches that are planned and read at the same time.
    """
    if not stats.seconds:
        return Report(stats, "", dict.fromkeys(stats.stages, 0.0))
    seconds = at_work(stats.stages, readers)
    busy = {stage: min(each / stats.seconds, 1.0) for stage, each in seconds.items()}
    bound = "consumer" if stats.waiting_share < HELD_UP else max(busy, key=lambda each: busy[each])
    return Report(stats, bound, busy)
