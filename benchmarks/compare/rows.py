"""The rows and columns of a comparison's tables and plots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.compare.results import OURS, Cache, Entry, Result
from gpufeed.tools.median import Median

__all__ = ["COLUMNS", "READY", "Column", "Row", "columns_of", "interval_note", "rows"]

READY = "limit: a batch that is ready"
"""So far beyond all others that no bar and no ratio says anything of it."""


@dataclass(frozen=True)
class Row:
    """One contender with one page cache.

    Attributes:
        entry: what it answered.
        rate: images/s.
        ratio: of its images/s to gpufeed's, round by round; None where gpufeed did not run.
        cache: which one.
    """

    entry: Entry
    rate: Median
    ratio: Median | None
    cache: Cache

    @property
    def name(self) -> str:
        """The contender's."""
        return self.entry.name

    @property
    def limit(self) -> bool:
        """Whether it is no loader but a part of the work alone."""
        return self.name.startswith("limit")

    @property
    def kind(self) -> str:
        """What it is to be compared as: "ours", "equal", "less" or "limit"."""
        if self.name == OURS:
            return "ours"
        if self.limit:
            return "limit"
        return "equal" if self.entry.equal else "less"

    @property
    def remarks(self) -> str:
        """What else is to be said of it."""
        return "; ".join(filter(None, [self.entry.does, *self.entry.remarks]))

    def figure(self, name: str) -> Median | None:
        """Median of one of `FIGURES`; None where it was not taken."""
        return self.entry.figure(name, self.cache)


@dataclass(frozen=True)
class Column:
    """A figure's column.

    Attributes:
        head: what is above it.
        value: the row's figure; None where it was not taken.
        form: of its numbers.
    """

    head: str
    value: Callable[[Row], Median | None]
    form: str

    def cell(self, row: Row) -> str:
        """The figure with its interval."""
        found = self.value(row)
        if found is None:
            return ""
        median, low, high = (self._text(each) for each in (found.median, found.low, found.high))
        return median if found.low == found.high else f"{median} ({low} to {high})"

    def _text(self, number: float) -> str:
        form = ",.0f" if number >= 100 else self.form
        return format(number, form).replace("%", " %")


COLUMNS = (
    Column("images/s", lambda row: row.rate, ",.0f"),
    Column("over gpufeed", lambda row: row.ratio, ".2f"),
    Column("CPU ms an image", lambda row: row.figure("cpu_ms"), ".2f"),
    Column("memory, MiB", lambda row: row.figure("memory_mib"), ",.0f"),
    Column("at most, MiB", lambda row: row.figure("peak_mib"), ",.0f"),
    Column("waiting", lambda row: row.figure("waited"), ".0%"),
    Column("GPU at work", lambda row: row.figure("gpu_share"), ".0%"),
    Column("JPEG engines", lambda row: row.figure("jpeg_share"), ".0%"),
    Column("GPU memory, MiB", lambda row: row.figure("gpu_mib"), ",.0f"),
)


def rows(result: Result, cache: Cache = "warm") -> list[Row]:
    """Return a row for each contender that ran, the fastest first, the limits last."""
    ours = result.ours
    listed = []
    for entry in result.entries:
        rate = entry.figure("images_per_second", cache)
        if rate is not None:
            listed.append(Row(entry, rate, entry.over(ours, cache) if ours else None, cache))
    return sorted(listed, key=lambda row: (row.limit, -row.rate.median))


def columns_of(listed: list[Row]) -> list[Column]:
    """Return the columns that there is anything in."""
    return [column for column in COLUMNS if any(column.value(row) for row in listed)]


def interval_note(result: Result, cache: Cache = "warm") -> str:
    """Say what the figures are, and what is in brackets behind them."""
    listed = rows(result, cache)
    if not listed:
        return "none ran"
    rate = listed[0].rate
    said = f"medians of {rate.rounds} round{'s' * (rate.rounds != 1)} in turns"
    if rate.rounds == 1:
        return said
    sure = f"{100 * rate.coverage:.0f} %"
    return (
        f"{said}, in brackets their interval (by order alone, {sure} sure were rounds "
        "independent); ratios are taken round by round"
    )
