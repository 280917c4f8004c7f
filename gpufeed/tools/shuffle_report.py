"""What a sampler's order looks like beside NumPy's permutation and Grain's."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gpufeed._util.progress import progress as progress_bar
from gpufeed.errors import ConfigError
from gpufeed.order.balanced import ClassBalancedBatchSampler
from gpufeed.order.uniform import IndexSampler, RepeatedAugmentationSampler, SequentialSampler
from gpufeed.order.weighted import WeightedSampler, balanced_weights
from gpufeed.tools.shuffle import Counted, Orders, commonest_difference, count_parts, figures

if TYPE_CHECKING:
    from gpufeed.order.sampler import Sampler

__all__ = [
    "FAR",
    "Cell",
    "Found",
    "Kind",
    "Report",
    "examine",
    "make_sampler",
    "notes_of",
    "rows_of",
]

Int64 = npt.NDArray[np.int64]
Kind = Literal["index", "repeated", "weighted", "balanced", "sequential"]
_Look = Callable[[int, int, Int64], Int64]
"""From seed, epoch and positions to the records there."""

FAR = 4.0
"""Standard deviations: a figure that lies further from a perfect shuffle's mean is marked."""
LEAST_RECORDS = 20
"""With fewer, no figure tells one order from another."""
_LOOKED = 1 << 17
"""The most positions of an epoch that are looked at; Grain's sampler gives them one by one."""
_SHUFFLES = 100
"""NumPy's, of which the means and deviations of a perfect shuffle are taken."""
_FOLLOWED, _EPOCHS = 20, 1000
"""Places that are followed, and through how many epochs."""
_PERMUTED = 1 << 26
"""The most positions that NumPy permutes to follow them."""

# For each figure: its name, its meaning, and how it is written.
_ROWS = {
    "autocorrelation": ("Autocorrelation", "largest of keys with those 1 to 9 positions on", ".4f"),
    "difference": ("Commonest difference", "of successive keys: how often it comes", ",.0f"),
    "places": ("Records at a place", "chi-square of those at some places in many epochs", "+.1f"),
    "epochs": ("Next epoch", "correlation of epochs 0 and 1", "+.4f"),
    "seeds": ("Next seed", "correlation of the two seeds' epochs 0", "+.4f"),
    "aliasing": ("Aliasing", "positions at which epoch 1 is the next seed's epoch 0", ",.0f"),
    "visits": ("Visits", "most to one record in an epoch", ",.0f"),
    "classes": ("Classes in a batch", "mean", ".2f"),
    "share": ("Commonest class", "mean share of a batch", ".2%"),
}
_MEANT = {
    "repeated": "show a record several times in a row, and a part of them in an epoch",
    "weighted": "draw rare classes more often, so that records repeat or stay away",
    "balanced": "put equally many records of a few classes in each batch",
    "sequential": "go through the records in their order: it shows what a bad shuffle is",
}


@dataclass(frozen=True)
class Found:
    """What was found of one source of orders.

    Attributes:
        name: of the source.
        orders: those looked at.
        places: the records at some places of many epochs.
        figures: by their names in `figures`, and "places".
    """

    name: str
    orders: Orders
    places: Counted
    figures: dict[str, float]


@dataclass(frozen=True)
class Report:
    """What was found of the sampler and of those beside it, and what it is of.

    Attributes:
        found: of gpufeed's sampler, NumPy's and, where it is installed, Grain's.
        expected: mean and standard deviation of each figure of a perfect shuffle.
        kind: which sampler of gpufeed's it is.
        labels: int64 (n,), the classes of the records.
        seed: of the orders; the next one is looked at too.
        batch_size: records in a global batch.
    """

    found: tuple[Found, ...]
    expected: dict[str, tuple[float, float]]
    kind: Kind
    labels: Int64
    seed: int
    batch_size: int

    def z(self, found: Found, figure: str) -> float:
        """How many standard deviations a figure lies from a perfect shuffle's mean."""
        mean, deviation = self.expected[figure]
        off = found.figures[figure] - mean
        return off / deviation if deviation else math.copysign(math.inf, off) if off else 0.0


def make_sampler(
    kind: Kind,
    labels: Int64,
    seed: int,
    *,
    batch_size: int = 64,
    repeats: int = 3,
    power: float = 1.0,
    records_per_class: int = 4,
) -> Sampler:
    """Return a sampler by its name.

    Args:
        kind: "index" is a plain shuffle.
        labels: int64 (n,), the manifest's.
        seed: of the order.
        batch_size: of a global batch; "balanced" fills it.
        repeats: of "repeated", how many times in a row a record comes.
        power: of "weighted", as for `balanced_weights`.
        records_per_class: of "balanced", in a batch.

    Raises:
        ConfigError: an argument is out of range.
    """
    if kind == "index":
        return IndexSampler(len(labels), shuffle=True, seed=seed)
    if kind == "sequential":
        return SequentialSampler(len(labels), seed=seed)
    if kind == "repeated":
        return RepeatedAugmentationSampler(len(labels), repeats=repeats, seed=seed)
    if kind == "weighted":
        return WeightedSampler(balanced_weights(labels, power), seed=seed)
    if batch_size % records_per_class:
        raise ConfigError(
            f"a batch of {batch_size} cannot be filled with {records_per_class} records of each "
            "class; give a batch size that is a multiple of the records per class"
        )
    classes, most = batch_size // records_per_class, len(np.unique(labels))
    if classes > most:
        raise ConfigError(
            f"a batch of {batch_size} with {records_per_class} records per class takes {classes} "
            f"classes, and the data have {most}; give a smaller batch size or more records per "
            "class"
        )
    return ClassBalancedBatchSampler(
        labels, classes_per_batch=classes, records_per_class=records_per_class, seed=seed
    )


def examine(
    labels: npt.ArrayLike,
    kind: Kind = "index",
    *,
    seed: int = 0,
    batch_size: int = 64,
    progress: bool | None = None,
    **options: Any,
) -> Report:
    """Look at the orders of a sampler, of NumPy and, where it is installed, of Grain.

    Of long epochs the first 2**17 positions are looked at.

    Args:
        labels: int (n,), the classes of the manifest's records.
        kind: which sampler.
        seed: of the orders; the next one is looked at too.
        batch_size: records in a global batch.
        progress: whether to show a progress bar; None on a terminal only.
        options: for `make_sampler`.

    Raises:
        ConfigError: an argument is out of range, or there are too few records.
    """
    classes = np.asarray(labels).astype(np.int64)
    size = len(classes)
    if size < LEAST_RECORDS:
        raise ConfigError(
            f"there are {size} records; an order of fewer than {LEAST_RECORDS} tells nothing of "
            "its sampler"
        )
    if seed >= (1 << 64) - 1:
        raise ConfigError(
            f"seed is {seed}; the next one is looked at too, so 2**64 - 2 is the last"
        )
    ours = [
        make_sampler(kind, classes, seed + shift, batch_size=batch_size, **options)
        for shift in (0, 1)
    ]
    looked = min(size, ours[0].epoch_size, _LOOKED)
    if batch_size > looked:
        raise ConfigError(
            f"batch_size is {batch_size}, but an epoch has {looked:,} records to look at; give a "
            "smaller one"
        )

    def look(shift: int, epoch: int, positions: Int64) -> Int64:
        sampler = ours[shift]
        return sampler.visits(epoch * sampler.epoch_size + positions).record_key

    def numpys(shift: int, epoch: int, positions: Int64) -> Int64:
        return np.random.default_rng([seed + shift, epoch]).permutation(size)[positions]

    sources: dict[str, _Look] = {"gpufeed": look, "numpy": numpys}
    if (grains := _look_by_grain(size, seed)) is not None:
        sources["Grain"] = grains
    positions, rng = np.arange(looked), np.random.default_rng(seed)
    # With most of the records followed, their places would depend on each other.
    followed = np.linspace(0, looked - 1, max(1, min(_FOLLOWED, looked // 10))).astype(np.int64)
    epochs = max(10, min(_EPOCHS, _PERMUTED // size))
    found = []
    with progress_bar("Looking at orders", len(sources) + _SHUFFLES, show=progress) as advance:
        for name, source in sources.items():
            orders = Orders(*(source(*which, positions) for which in ((0, 0), (0, 1), (1, 0))))
            places = count_parts(
                np.stack([source(0, epoch, followed) for epoch in range(epochs)]), size
            )
            scores = {"places": places.z, **figures(orders, classes, batch_size)}
            found.append(Found(name, orders, places, scores))
            advance(1)
        perfect = []
        for _ in range(_SHUFFLES):
            orders = Orders(*(rng.permutation(size)[:looked] for _ in range(3)))
            perfect.append(figures(orders, classes, batch_size))
            advance(1)
    expected = {"places": (0.0, 1.0)}
    for figure in perfect[0]:
        values = [scores[figure] for scores in perfect]
        expected[figure] = (float(np.mean(values)), float(np.std(values)))
    return Report(tuple(found), expected, kind, classes, seed, batch_size)


def _look_by_grain(size: int, seed: int) -> _Look | None:
    """Grain's IndexSampler; None where it cannot be imported, or takes no such seed."""
    if importlib.util.find_spec("grain") is None or seed + 1 >= 1 << 32:
        return None
    try:
        make = importlib.import_module("grain.python").IndexSampler
    except ImportError:
        return None
    samplers = [make(size, shuffle=True, seed=seed + shift) for shift in (0, 1)]

    def look(shift: int, epoch: int, positions: Int64) -> Int64:
        keys = (samplers[shift][at].record_key for at in (epoch * size + positions).tolist())
        return np.fromiter(keys, dtype=np.int64, count=len(positions))

    return look


class Cell(NamedTuple):
    """One source's figure, as text; how far off it is; and whether that is far."""

    value: str
    detail: str
    odd: bool


def rows_of(report: Report) -> list[tuple[str, str, str, list[Cell]]]:
    """Return the table's rows: a name, what it means, a perfect shuffle's, and each source's."""
    rows = []
    for figure, (name, meaning, form) in _ROWS.items():
        mean, deviation = report.expected[figure]
        cells = []
        for found in report.found:
            z = report.z(found, figure)
            detail = f"{z:+,.1f} s.d."
            if figure == "difference":
                detail += f", {commonest_difference(found.orders.first)[0]:+,}"
            cells.append(Cell(f"{found.figures[figure]:{form}}", detail, abs(z) > FAR))
        spread = form.replace("+", "").replace(".0f", ".1f")
        rows.append((name, meaning, f"{mean:{spread}} (s.d. {deviation:{spread}})", cells))
    return rows


def notes_of(report: Report) -> list[str]:
    """Return what is to be said below the table, a paragraph each."""
    looked = len(report.found[0].orders.first)
    notes = [
        f"s.d. are the standard deviations of {_SHUFFLES} of NumPy's shuffles; ! marks what lies "
        f"more than {FAR:g} of them from their mean."
    ]
    if looked < len(report.labels):
        notes.append(f"The first {looked:,} positions of an epoch were looked at.")
    if len(report.found) < 3:
        notes.append(
            "Grain stands beside them where it is installed (pip install grain) and the seed is "
            "below 2**32 - 1."
        )
    if report.kind in _MEANT:
        notes.append(f"The {report.kind} sampler is meant to {_MEANT[report.kind]}.")
    return notes
