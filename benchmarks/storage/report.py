"""What the turns of real runs show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.storage.real import Turn
from gpufeed.tools.median import Median, median_of

__all__ = ["Figures", "figures", "first_epochs", "table"]


@dataclass(frozen=True)
class Figures:
    """A feed with room for a share of the data: medians over its turns, with their intervals.

    Attributes:
        name: of the feed.
        share: of the data that its cache has room for; 0 where it has none.
        images_per_second: by wall time, in epochs after the first.
        first: the same in the first epoch, in which loaders start.
        fetched: bytes of such an epoch that the store sent, as a share of all images' bytes.
        cpu_ms: CPU time of an image in such epochs, in milliseconds.
        together: how often images that were written one after the other came in one batch, as a
            multiple of a full shuffle's.
    """

    name: str
    share: float
    images_per_second: Median
    first: Median
    fetched: Median
    cpu_ms: Median
    together: Median


def figures(turns: Sequence[Turn], images: int) -> Iterator[Figures]:
    """Summarize all turns of each feed and share."""
    for name, share in dict.fromkeys((turn.name, turn.share) for turn in turns):
        here = [turn.epochs for turn in turns if (turn.name, turn.share) == (name, share)]
        later = [epochs[1:] for epochs in here]
        yield Figures(
            name,
            share,
            median_of([images * len(each) / sum(e.seconds for e in each) for each in later]),
            median_of([images / epochs[0].seconds for epochs in here]),
            median_of([sum(e.fetched for e in each) / len(each) for each in later]),
            median_of(
                [1e3 * sum(e.cpu_seconds for e in each) / images / len(each) for each in later]
            ),
            median_of([sum(e.together for e in each) / len(each) for each in here]),
        )


def first_epochs(turns: Sequence[Turn], name: str, other: str) -> Median | None:
    """Return the images/s of a feed's first epoch by those of another's turn before it."""
    ratios: list[float] = []
    base: float | None = None
    for turn in turns:
        if turn.name == other:
            base = turn.epochs[0].seconds
        elif turn.name == name and base:
            ratios.append(base / turn.epochs[0].seconds)
    return median_of(ratios) if ratios else None


def table(found: Sequence[Figures]) -> str:
    """Return a table in Markdown."""
    lines = [
        "| room, % of the data | | images/s | from the store, % of the data | hits, % "
        "| CPU ms per image | images/s of the first epoch | neighbours together |",
        "|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    for each in sorted(found, key=lambda each: each.share):
        speed, fetched = each.images_per_second, 100 * each.fetched.median
        lines.append(
            f"| {100 * each.share:g} | {each.name} "
            f"| {speed.median:.0f} ({speed.low:.0f} to {speed.high:.0f}) | {fetched:.0f} "
            f"| {max(0, 100 - fetched):.0f} | {each.cpu_ms.median:.2f} | {each.first.median:.0f} "
            f"| {each.together.median:.1f} |"
        )
    return "\n".join(lines)
