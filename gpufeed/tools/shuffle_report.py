"""Comparing the randomness of a sampler's order with NumPy's and Grain's."""

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
from gpufeed.order.node_local import NodeLocalSampler
from gpufeed.order.uniform import IndexSampler, RepeatedAugmentationSampler, SequentialSampler
from gpufeed.order.weighted import WeightedSampler, balanced_weights
from gpufeed.tools.shuffle import Counted, Orders, commonest_difference, count_parts, figures

if TYPE_CHECKING:
    from gpufeed.order.sampler import Sampler

__all__ = [
    "FAR",
    "Cell",
    "Found",
    "Report",
    "SamplerKind",
    "examine",
    "make_sampler",
    "notes_of",
    "rows_of",
    "verdict_of",
]

Int64 = npt.NDArray[np.int64]
SamplerKind = Literal["index", "repeated", "weighted", "balanced", "node-local", "sequential"]
_Source = Callable[[int, int, Int64], Int64]
"""From the shift of the seed, the epoch and positions to the records there."""

FAR = 4.0
"""Figures further from a perfect shuffle's mean are marked, in standard deviations."""
MIN_RECORDS = 20
"""With fewer records, no figure distinguishes orders."""
_FEW_RECORDS = 1000
"""With fewer records, chance hides what is not large."""
_MAX_POSITIONS = 1 << 17
"""The most positions of an epoch that are examined; Grain's sampler is called for each."""
_SHUFFLES = 100
"""NumPy shuffles that give the means and deviations of a perfect shuffle."""
_FOLLOWED, _EPOCHS = 20, 1000
"""Positions that are followed, and the epochs to follow them through."""
_MAX_PERMUTED = 1 << 26
"""The most positions that NumPy permutes to follow them."""

# For each figure: its name, its meaning, and its format.
_ROWS = {
    "autocorrelation": ("Autocorrelation", "largest at lags of 1 to 9 positions", ".4f"),
    "difference": ("Commonest difference", "count of it among successive keys", ",.0f"),
    "places": ("Records at a position", "chi-square at fixed positions, many epochs", "+.1f"),
    "epochs": ("Next epoch", "correlation of epochs 0 and 1", "+.4f"),
    "seeds": ("Next seed", "correlation of epoch 0 with the next seed's", "+.4f"),
    "aliasing": ("Aliasing", "positions where epoch 1 equals the next seed's epoch 0", ",.0f"),
    "visits": ("Visits", "most visits to one record in an epoch", ",.0f"),
    "classes": ("Classes in a batch", "mean", ".2f"),
    "share": ("Commonest class", "mean share of a batch", ".2%"),
}
_EFFECTS = {
    "autocorrelation": "records that come soon after each other are related",
    "difference": "one record follows another at the same distance too often",
    "places": "some records come too often at the same position of many epochs",
    "epochs": "the next epoch's order depends on this epoch's",
    "seeds": "the next seed's order depends on this seed's",
    "aliasing": "epoch 1 repeats positions of the next seed's epoch 0",
    "visits": "records come more than once in an epoch",
    "classes": "batches have more or fewer classes than by chance",
    "share": "the commonest class has more or less of a batch than by chance",
}
"""What a figure far from a perfect shuffle's means."""
_PURPOSES = {
    "repeated": "it shows a record several times in a row, and only some records in an epoch",
    "weighted": "it draws rare classes more often, so that some records repeat and others are "
    "left out",
    "balanced": "it puts equally many records of a few classes in each batch",
    "node-local": "it keeps each record on one machine, so that it comes in one part of the batch",
    "sequential": "it goes through the records in order",
}


@dataclass(frozen=True)
class Found:
    """The figures of one source of orders.

    Attributes:
        name: the name of the source.
        orders: the orders examined.
        places: the counts of records at fixed positions over many epochs.
        figures: the measures by their names in `figures`, and "places".
    """

    name: str
    orders: Orders
    places: Counted
    figures: dict[str, float]


@dataclass(frozen=True)
class Report:
    """The figures of a sampler and of those it is compared with.

    Attributes:
        found: the figures of gpufeed's sampler, NumPy's and, if it is installed, Grain's.
        expected: the mean and standard deviation of each figure for a perfect shuffle.
        kind: the kind of gpufeed's sampler.
        labels: int64 (n,), the classes of the records.
        seed: the seed of the orders; the next seed is examined as well.
        batch_size: records in a global batch.
    """

    found: tuple[Found, ...]
    expected: dict[str, tuple[float, float]]
    kind: SamplerKind
    labels: Int64
    seed: int
    batch_size: int

    def z(self, found: Found, figure: str) -> float:
        """Return the distance of a figure from a perfect shuffle's mean, in standard deviations."""
        mean, deviation = self.expected[figure]
        off = found.figures[figure] - mean
        return off / deviation if deviation else math.copysign(math.inf, off) if off else 0.0


def make_sampler(
    kind: SamplerKind,
    labels: Int64,
    seed: int,
    *,
    batch_size: int = 64,
    repeats: int = 3,
    power: float = 1.0,
    records_per_class: int = 4,
    nodes: int = 8,
) -> Sampler:
    """Return a sampler by its name.

    Args:
        kind: "index" is a plain shuffle.
        labels: int64 (n,), the manifest's labels.
        seed: the seed of the order.
        batch_size: records in a global batch, which "balanced" fills and "node-local" divides.
        repeats: for "repeated", how many times in a row a record comes.
        power: for "weighted", as for `balanced_weights`.
        records_per_class: for "balanced", the records of each class in a batch.
        nodes: for "node-local", the number of machines.

    Raises:
        ConfigError: an argument is out of range.
    """
    if kind == "index":
        return IndexSampler(len(labels), shuffle=True, seed=seed)
    if kind == "sequential":
        return SequentialSampler(len(labels), seed=seed)
    if kind == "repeated":
        return RepeatedAugmentationSampler(len(labels), repeats=repeats, seed=seed)
    if kind == "node-local":
        return NodeLocalSampler(len(labels), nodes=nodes, global_batch=batch_size, seed=seed)
    if kind == "weighted":
        return WeightedSampler(balanced_weights(labels, power), seed=seed)
    if batch_size % records_per_class:
        raise ConfigError(
            f"a batch of {batch_size} cannot be filled with {records_per_class} records of each "
            "class; use a batch size that is a multiple of the records per class"
        )
    classes, most = batch_size // records_per_class, len(np.unique(labels))
    if classes > most:
        raise ConfigError(
            f"a batch of {batch_size} with {records_per_class} records per class needs {classes} "
            f"classes, but the data have {most}; use a smaller batch size or more records per class"
        )
    return ClassBalancedBatchSampler(
        labels, classes_per_batch=classes, records_per_class=records_per_class, seed=seed
    )


def examine(
    labels: npt.ArrayLike,
    kind: SamplerKind = "index",
    *,
    seed: int = 0,
    batch_size: int = 64,
    progress: bool | None = None,
    **options: Any,
) -> Report:
    """Measure the orders of a sampler, of NumPy and, if it is installed, of Grain.

    Of long epochs, the first 2**17 positions are examined.

    Args:
        labels: int (n,), the classes of the manifest's records.
        kind: the kind of sampler.
        seed: the seed of the orders; the next seed is examined as well.
        batch_size: records in a global batch.
        progress: whether to show a progress bar; None to show it on a terminal only.
        options: options of `make_sampler`.

    Raises:
        ConfigError: an argument is out of range, or there are too few records.
    """
    classes = np.asarray(labels).astype(np.int64)
    size = len(classes)
    if size < MIN_RECORDS:
        raise ConfigError(
            f"there are {size} records; examining an order needs at least {MIN_RECORDS}"
        )
    if seed >= (1 << 64) - 1:
        raise ConfigError(
            f"seed is {seed}; it must be at most 2**64 - 2, since the next seed is examined as well"
        )
    ours = [
        make_sampler(kind, classes, seed + shift, batch_size=batch_size, **options)
        for shift in (0, 1)
    ]
    examined = min(size, ours[0].epoch_size, _MAX_POSITIONS)
    if batch_size > examined:
        raise ConfigError(
            f"batch_size is {batch_size}, but only {examined:,} records of an epoch are examined; "
            "use a smaller batch_size"
        )

    def by_gpufeed(shift: int, epoch: int, positions: Int64) -> Int64:
        sampler = ours[shift]
        return sampler.visits(epoch * sampler.epoch_size + positions).record_key

    def by_numpy(shift: int, epoch: int, positions: Int64) -> Int64:
        return np.random.default_rng([seed + shift, epoch]).permutation(size)[positions]

    sources: dict[str, _Source] = {"gpufeed": by_gpufeed, "numpy": by_numpy}
    if (by_grain := _grain_source(size, seed)) is not None:
        sources["Grain"] = by_grain
    positions, rng = np.arange(examined), np.random.default_rng(seed)
    # If most positions were followed, their records would depend on each other.
    count = max(1, min(_FOLLOWED, examined // 10))
    followed = np.linspace(0, examined - 1, count).astype(np.int64)
    epochs = max(10, min(_EPOCHS, _MAX_PERMUTED // size))
    found = []
    with progress_bar("Examining orders", len(sources) + _SHUFFLES, show=progress) as advance:
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
            orders = Orders(*(rng.permutation(size)[:examined] for _ in range(3)))
            perfect.append(figures(orders, classes, batch_size))
            advance(1)
    expected = {"places": (0.0, 1.0)}
    for figure in perfect[0]:
        values = [scores[figure] for scores in perfect]
        expected[figure] = (float(np.mean(values)), float(np.std(values)))
    return Report(tuple(found), expected, kind, classes, seed, batch_size)


def _grain_source(size: int, seed: int) -> _Source | None:
    """Return Grain's IndexSampler; None if it cannot be imported or does not support the seed."""
    if importlib.util.find_spec("grain") is None or seed + 1 >= 1 << 32:
        return None
    try:
        make = importlib.import_module("grain.python").IndexSampler
    except ImportError:
        return None
    samplers = [make(size, shuffle=True, seed=seed + shift) for shift in (0, 1)]

    def by_grain(shift: int, epoch: int, positions: Int64) -> Int64:
        keys = (samplers[shift][at].record_key for at in (epoch * size + positions).tolist())
        return np.fromiter(keys, dtype=np.int64, count=len(positions))

    return by_grain


class Cell(NamedTuple):
    """One figure as text, its distance from the mean as text, and whether that is far."""

    value: str
    detail: str
    odd: bool


def rows_of(report: Report) -> list[tuple[str, str, str, list[Cell]]]:
    """Return the table's rows: name, meaning, a perfect shuffle's figure, and each source's."""
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


def verdict_of(report: Report) -> str:
    """Return in a sentence whether the order is a uniform shuffle, where not, and by how much."""
    ours = report.found[0]
    odd = [
        f"{_EFFECTS[figure]} ({name[0].lower()}{name[1:]} {ours.figures[figure]:{form}}, a uniform "
        f"shuffle's is {report.expected[figure][0]:{form}})"
        for figure, (name, _, form) in _ROWS.items()
        if abs(report.z(ours, figure)) > FAR
    ]
    if not odd:
        verdict = f"This order is as random as a uniform shuffle, by all {len(_ROWS)} figures."
        count = len(ours.orders.first)
        few = f" With {count:,} records, only large differences would show."
        return verdict + few * (count < _FEW_RECORDS)
    meant = f"; {_PURPOSES[report.kind]}" if report.kind in _PURPOSES else ""
    return f"This order is not a uniform shuffle{meant}. Where it differs: {'; '.join(odd)}."


def notes_of(report: Report) -> list[str]:
    """Return the paragraphs below the table."""
    examined = len(report.found[0].orders.first)
    notes = [
        f"s.d. is the standard deviation over {_SHUFFLES} NumPy shuffles; ! marks figures more "
        f"than {FAR:g} s.d. from their mean."
    ]
    if examined < len(report.labels):
        notes.append(f"The first {examined:,} positions of an epoch were examined.")
    if len(report.found) < 3:
        notes.append(
            "Grain is included if it is installed (pip install grain) and the seed is below "
            "2**32 - 1."
        )
    return notes
