"""The shuffle report in words: a row for each figure, with what a perfect shuffle gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpufeed.tools.shuffle import SHARE, commonest_bound, normal_bound, poisson_bound

if TYPE_CHECKING:
    from gpufeed.tools.shuffle import ChiSquare
    from gpufeed.tools.shuffle_report import Figures, Report

__all__ = ["Cell", "Row", "notes_of", "rows_of"]


class Cell(NamedTuple):
    """One source's figure.

    Attributes:
        value: what is read first.
        detail: where it lies, or what it is of; "" for nothing.
        odd: whether fewer than 1 in 1,000 perfect shuffles go as far.
    """

    value: str
    detail: str = ""
    odd: bool = False


class Row(NamedTuple):
    """One figure of all sources.

    Attributes:
        name: of the figure.
        meaning: what it is.
        expected: what a perfect shuffle gives.
        cells: one for each of the report's figures.
    """

    name: str
    meaning: str
    expected: str
    cells: tuple[Cell, ...]


_MEANT = {
    "index": "",
    "repeated": (
        "The repeated sampler is meant to show a record several times in a row, and a part of them "
        "in an epoch: neighbours are alike, and batches have fewer classes."
    ),
    "weighted": (
        "The weighted sampler is meant to draw rare classes more often: records repeat or stay "
        "away, and batches have more classes."
    ),
    "balanced": (
        "The balanced sampler is meant to put equally many records of a few classes in each batch: "
        "neighbours are of one class, and records of small classes repeat."
    ),
    "sequential": "The sequential sampler is no shuffle: it is here to show what a bad one is.",
}


def rows_of(report: Report) -> list[Row]:
    """Return the table's rows."""
    size, batch_size = report.num_records, report.batch_size
    epochs, classes = report.epochs, report.classes
    made: list[tuple[str, str, str, Callable[[Figures], Cell]]] = [
        (
            "Largest autocorrelation",
            "how keys go with those 1 to 9 positions on",
            f"within {_within(report, 9 * epochs)}",
            lambda found: _autocorrelation(found),
        ),
        (
            "Commonest difference",
            "of successive keys, in any one epoch",
            f"at most {commonest_bound(size, report.figures[0].looked, epochs)} times",
            lambda found: _commonest(found, size),
        ),
        (
            "Places of a record",
            "chi-square of the places that up to 20 records take over many epochs",
            f"z within {normal_bound():.1f}",
            lambda found: _chi_square(found.places),
        ),
        (
            "Records at a place",
            "chi-square of the records that come at up to 20 places, likewise",
            f"z within {normal_bound():.1f}",
            lambda found: _chi_square(found.records),
        ),
        (
            "Epoch and next epoch",
            "largest correlation",
            f"within {_within(report, epochs - 1)}",
            lambda found: _correlation(found.between_epochs, found.looked),
        ),
        (
            "Seed and next seed",
            "largest correlation, epoch by epoch",
            f"within {_within(report, epochs)}",
            lambda found: _correlation(found.between_seeds, found.looked),
        ),
        (
            "Aliasing",
            "positions at which an epoch holds what the next seed's epoch before holds",
            f"1 on average, at most {poisson_bound(1.0, epochs - 1)}",
            lambda found: _aliasing(found, size),
        ),
        (
            "Visits to a record",
            "least and most in one epoch",
            "1 and 1",
            lambda found: _visits(found, size),
        ),
        (
            "Classes in a batch",
            f"mean of batches of {batch_size}; fewest and most",
            f"{classes.mean:.2f} ({classes.deviation:.2f} s.d. of a batch)",
            lambda found: _classes(found, report),
        ),
        (
            "Commonest class",
            "its largest share of any batch; mean of all",
            "as numpy's",
            lambda found: Cell(f"{found.shares.max():.1%}", f"mean {found.shares.mean():.1%}"),
        ),
    ]
    return [
        Row(name, meaning, expected, tuple(cell(found) for found in report.figures))
        for name, meaning, expected, cell in made
    ]


def notes_of(report: Report) -> list[str]:
    """Return what is to be said below the table, a paragraph each."""
    notes = [
        f"! marks what fewer than 1 in {1 / (1 - SHARE):,.0f} perfect shuffles give; s.e. are "
        "standard errors, by which a perfect shuffle is off, and z the like for a chi-square."
    ]
    notes += [
        f"Of {found.name}'s epochs, the first {found.looked:,} positions were looked at."
        for found in report.figures
        if found.looked < found.epoch_size
    ]
    if len(report.figures) < 3:
        notes.append(
            "Grain stands beside them where it is installed (pip install grain) and the seed is "
            "below 2**32 - 1."
        )
    return [*notes, *filter(None, [_MEANT[report.kind]])]


def _within(report: Report, times: int) -> str:
    return f"{normal_bound(times) / math.sqrt(report.figures[0].looked):.4f}"


def _autocorrelation(found: Figures) -> Cell:
    flat = int(np.abs(found.autocorrelation).argmax())
    epoch, lag = divmod(flat, found.autocorrelation.shape[1])
    value = float(found.autocorrelation[epoch, lag])
    errors = abs(value) * math.sqrt(found.looked)
    odd = errors > normal_bound(found.autocorrelation.size)
    return Cell(f"{value:+.4f}", f"lag {lag + 1}, epoch {epoch}; {errors:.1f} s.e.", odd)


def _commonest(found: Figures, size: int) -> Cell:
    odd = found.difference_count > commonest_bound(size, found.looked, len(found.autocorrelation))
    times = "once" if found.difference_count == 1 else f"{found.difference_count:,} times"
    return Cell(times, f"{found.difference:+,}", odd)


def _chi_square(found: ChiSquare | None) -> Cell:
    if found is None:
        return Cell("-")
    return Cell(
        f"z {found.z:+.2f}",
        f"{found.value:,.0f} of {found.freedom:,}; {found.draws:,} epochs",
        abs(found.z) > normal_bound(),
    )


def _correlation(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], looked: int) -> Cell:
    value = float(values[np.abs(values).argmax()])
    errors = abs(value) * math.sqrt(looked)
    return Cell(f"{value:+.4f}", f"{errors:.1f} s.e.", errors > normal_bound(len(values)))


def _aliasing(found: Figures, size: int) -> Cell:
    most = int(found.aliased.max())
    odd = most > poisson_bound(found.looked / size, len(found.aliased))
    return Cell(f"{most:,}", f"of {found.looked:,}", odd)


def _visits(found: Figures, size: int) -> Cell:
    part = found.looked < size
    odd = found.most > 1 or (found.fewest < 1 and not part)
    return Cell(f"{found.fewest:,} and {found.most:,}", f"in {found.looked:,}" if part else "", odd)


def _classes(found: Figures, report: Report) -> Cell:
    mean, error = float(found.classes.mean()), report.classes.deviation
    error /= math.sqrt(len(found.classes))
    odd = abs(mean - report.classes.mean) > normal_bound() * error + 1e-9
    return Cell(f"{mean:.2f}", f"{found.classes.min()} to {found.classes.max()}", odd)
