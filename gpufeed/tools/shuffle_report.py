"""What an order looks like beside numpy's own permutation and Grain's: figures, and their table."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from gpufeed._util.progress import progress as progress_bar
from gpufeed.errors import ConfigError
from gpufeed.order.balanced import ClassBalancedBatchSampler
from gpufeed.order.permutation import derive_keys, unpermute
from gpufeed.order.uniform import IndexSampler, RepeatedAugmentationSampler, SequentialSampler
from gpufeed.order.weighted import WeightedSampler, balanced_weights
from gpufeed.tools.shuffle import (
    ChiSquare,
    Expected,
    agreements,
    autocorrelation,
    chi_square,
    classes_per_batch,
    commonest_difference,
    correlation,
    expected_classes,
)

if TYPE_CHECKING:
    from gpufeed.order.sampler import Sampler

__all__ = ["Figures", "Kind", "Report", "examine", "make_sampler"]

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Kind = Literal["index", "repeated", "weighted", "balanced", "sequential"]

LAGS = 9
LEAST_RECORDS = 20
"""With fewer, no figure tells one order from another."""
_LOOKED = 1 << 20
"""The most positions of an epoch that are looked at, so that memory is bounded."""
_LOOKED_GRAIN = 1 << 17
"""Grain's sampler gives one record at a time."""
_PERMUTED = 1 << 26
"""The most positions that are permuted to find where records lie in many epochs."""
_AT_ONCE = 1 << 16
"""Positions that a sampler is asked for at once."""
_FOLLOWED = 20
"""Records, or places, that are followed through many epochs."""
_GRAIN_SEEDS = 1 << 32


@dataclass(frozen=True)
class Figures:
    """What was found of one source of orders.

    Attributes:
        name: of the source.
        epoch_size: positions of an epoch.
        looked: positions of each epoch that were looked at, from its first.
        first: int64 (looked,), the record keys of the first epoch.
        autocorrelation: float64 (epochs, 9), by lag from 1.
        difference: the commonest difference of successive keys in any epoch.
        difference_count: how often it comes in that epoch.
        places: of the places that records take over many epochs; None where not to be had.
        records: of the records that come at places over many epochs; None likewise.
        between_epochs: float64 (epochs - 1,), correlations of each epoch with the next.
        between_seeds: float64 (epochs,), of each epoch with the next seed's.
        aliased: int64 (epochs - 1,), positions at which epoch e agrees with epoch e - 1 of the
            next seed.
        fewest: how often the rarest record comes in the first epoch.
        most: how often the commonest one does.
        classes: int64 (batches,), classes in each batch of all epochs.
        shares: float64 (batches,), the commonest class's share of each batch.
    """

    name: str
    epoch_size: int
    looked: int
    first: Int64
    autocorrelation: Float64
    difference: int
    difference_count: int
    places: ChiSquare | None
    records: ChiSquare | None
    between_epochs: Float64
    between_seeds: Float64
    aliased: Int64
    fewest: int
    most: int
    classes: Int64
    shares: Float64


@dataclass(frozen=True)
class Report:
    """Figures of the sampler asked about and of those beside it, and what they are of.

    Attributes:
        figures: gpufeed's, numpy's and, where it was asked, Grain's.
        kind: which sampler of gpufeed's it is.
        num_records: in the manifest.
        num_classes: that have a record.
        seed: of the first order.
        epochs: looked at, from epoch 0.
        batch_size: records in a global batch.
        classes: in a batch drawn without replacement.
    """

    figures: tuple[Figures, ...]
    kind: Kind
    num_records: int
    num_classes: int
    seed: int
    epochs: int
    batch_size: int
    classes: Expected


class _Source(Protocol):
    """Somebody's orders of n records; `shift` is added to the seed."""

    name: str
    looked: int
    epoch_size: int

    def order(self, shift: int, epoch: int) -> Int64:
        """The records at the first positions of an epoch, int64 (looked,)."""

    def many(self, followed: Int64, epochs: int) -> tuple[Int64 | None, Int64 | None]:
        """Over many epochs, each int64 (epochs, n) or None.

        The places that the records `followed` take, and the records at the places `followed`.
        """


class _Ours:
    name = "gpufeed"

    def __init__(self, make: Callable[[int], Sampler], seed: int) -> None:
        self._samplers = [make(seed), make(seed + 1)]
        self.epoch_size = self._samplers[0].epoch_size
        self.looked = min(self.epoch_size, _LOOKED)

    def order(self, shift: int, epoch: int) -> Int64:
        start, sampler = epoch * self.epoch_size, self._samplers[shift]
        # Some samplers need hundreds of bytes for a position while they work.
        bounds = [*range(start, start + self.looked, _AT_ONCE), start + self.looked]
        return np.concatenate([sampler.keys(*ends) for ends in itertools.pairwise(bounds)])

    def many(self, followed: Int64, epochs: int) -> tuple[Int64 | None, Int64 | None]:
        sampler = self._samplers[0]
        if isinstance(sampler, WeightedSampler | ClassBalancedBatchSampler):
            return None, None  # meant to be uneven
        epoch, record = np.repeat(np.arange(epochs), len(followed)), np.tile(followed, epochs)
        shape = (epochs, len(followed))
        at = sampler.visits(epoch * self.epoch_size + record).record_key.reshape(shape)
        if not isinstance(sampler, IndexSampler):
            return None, at
        if not sampler.shuffle:
            return record.reshape(shape), at
        keys = derive_keys(sampler.seed, epoch, np.zeros_like(epoch))
        return unpermute(record, sampler.num_records, keys).reshape(shape), at


class _Numpys:
    name = "numpy"

    def __init__(self, num_records: int, seed: int) -> None:
        self._seed = seed
        self.epoch_size = num_records
        self.looked = min(num_records, _LOOKED)

    def order(self, shift: int, epoch: int) -> Int64:
        return self._whole(shift, epoch)[: self.looked]

    def _whole(self, shift: int, epoch: int) -> Int64:
        return np.random.default_rng([self._seed + shift, epoch]).permutation(self.epoch_size)

    def many(self, followed: Int64, epochs: int) -> tuple[Int64 | None, Int64 | None]:
        epochs = min(epochs, _PERMUTED // self.epoch_size)
        places, records = (np.empty((epochs, len(followed)), dtype=np.int64) for _ in range(2))
        place_of = np.empty(self.epoch_size, dtype=np.int64)
        for epoch in range(epochs):
            order = self._whole(0, epoch)
            place_of[order] = np.arange(self.epoch_size)
            places[epoch], records[epoch] = place_of[followed], order[followed]
        return places, records


class _Grains:
    name = "Grain"

    def __init__(self, num_records: int, seed: int, make: Callable[..., Any]) -> None:
        self._samplers = [make(num_records, shuffle=True, seed=seed + shift) for shift in (0, 1)]
        self.epoch_size = num_records
        self.looked = min(num_records, _LOOKED_GRAIN)

    def order(self, shift: int, epoch: int) -> Int64:
        start = epoch * self.epoch_size
        return self._keys(shift, range(start, start + self.looked))

    def _keys(self, shift: int, positions: range | list[int]) -> Int64:
        sampler = self._samplers[shift]
        keys = (sampler[position].record_key for position in positions)
        return np.fromiter(keys, dtype=np.int64, count=len(positions))

    def many(self, followed: Int64, epochs: int) -> tuple[Int64 | None, Int64 | None]:
        positions = (np.arange(epochs)[:, None] * self.epoch_size + followed).ravel().tolist()
        return None, self._keys(0, positions).reshape(epochs, len(followed))


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
            f"a batch of {batch_size} can not be filled with {records_per_class} records of each "
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
    epochs: int = 3,
    many_epochs: int = 2000,
    progress: bool | None = None,
    **options: Any,
) -> Report:
    """Look at the orders of a sampler, of numpy and, where it is installed, of Grain.

    Of long epochs the first 2**20 positions are looked at, and 2**17 of Grain's.

    Args:
        labels: int (n,), the classes of the manifest's records.
        kind: which sampler.
        seed: of the orders; the next one is looked at too.
        batch_size: records in a global batch.
        epochs: how many are looked at, 2 or more.
        many_epochs: through how many some records are followed.
        progress: whether to show a progress bar; None on a terminal only.
        options: for `make_sampler`.

    Raises:
        ConfigError: an argument is out of range, or there are too few records.
    """
    classes = np.asarray(labels).astype(np.int64)
    if len(classes) < LEAST_RECORDS:
        raise ConfigError(
            f"there are {len(classes)} records; an order of fewer than {LEAST_RECORDS} tells "
            "nothing of its sampler"
        )
    if epochs < 2:
        raise ConfigError(f"epochs is {epochs}; it must be 2 or more, so that two can be compared")
    if seed >= (1 << 64) - 1:
        raise ConfigError(
            f"seed is {seed}; the next one is looked at too, so 2**64 - 2 is the last"
        )

    def make(its_seed: int) -> Sampler:
        return make_sampler(kind, classes, its_seed, batch_size=batch_size, **options)

    sources: list[_Source] = [_Ours(make, seed), _Numpys(len(classes), seed)]
    grains = _grains_sampler()
    if grains is not None and seed + 1 < _GRAIN_SEEDS:
        sources.append(_Grains(len(classes), seed, grains))
    least = min(source.looked for source in sources)
    if batch_size > least:
        raise ConfigError(
            f"batch_size is {batch_size}, but an epoch has {least:,} records to look at; give a "
            "smaller one"
        )
    # With most of the records followed, their places would depend on each other.
    followed = np.linspace(0, len(classes) - 1, min(_FOLLOWED, len(classes) // 10)).astype(np.int64)
    stages = len(sources) * (epochs + 2)
    with progress_bar("Looking at orders", stages, show=progress) as advance:
        figures = tuple(
            _figures(source, classes, batch_size, epochs, (followed, many_epochs), advance)
            for source in sources
        )
    sizes = np.bincount(classes)
    return Report(
        figures,
        kind,
        len(classes),
        int((sizes > 0).sum()),
        seed,
        epochs,
        batch_size,
        expected_classes(sizes, batch_size),
    )


def _grains_sampler() -> Callable[..., Any] | None:
    """Grain's IndexSampler; None where it is not installed, or is and can not be imported."""
    if importlib.util.find_spec("grain") is None:
        return None
    try:
        sampler: Callable[..., Any] = importlib.import_module("grain.python").IndexSampler
    except ImportError:
        return None
    return sampler


def _figures(
    source: _Source,
    labels: Int64,
    batch_size: int,
    epochs: int,
    many: tuple[Int64, int],
    advance: Callable[[int], None],
) -> Figures:
    """Go through a source's epochs, of which two are held at a time, of this seed and the next."""
    places, records = source.many(*many)
    advance(1)
    size = len(labels)
    first = before = source.order(0, 0)
    other_before = source.order(1, 0)
    visits = np.bincount(first, minlength=size)
    by_lag, commonest, between_epochs, between_seeds = [], [], [], []
    aliased, distinct, largest = [], [], []
    advance(1)
    for epoch in range(epochs):
        if epoch:
            here, other = source.order(0, epoch), source.order(1, epoch)
            between_epochs.append(correlation(before, here))
            aliased.append(agreements(here, other_before))
            before, other_before = here, other
        by_lag.append(autocorrelation(before, LAGS))
        commonest.append(commonest_difference(before))
        between_seeds.append(correlation(before, other_before))
        mixed = classes_per_batch(labels[before], batch_size)
        distinct.append(mixed[0])
        largest.append(mixed[1])
        advance(1)
    difference, count = max(commonest, key=lambda found: found[1])
    return Figures(
        name=source.name,
        epoch_size=source.epoch_size,
        looked=source.looked,
        first=first,
        autocorrelation=np.stack(by_lag),
        difference=difference,
        difference_count=count,
        places=None if places is None else chi_square(places, size),
        records=None if records is None else chi_square(records, size),
        between_epochs=np.array(between_epochs),
        between_seeds=np.array(between_seeds),
        aliased=np.array(aliased),
        fewest=int(visits.min()),
        most=int(visits.max()),
        classes=np.concatenate(distinct),
        shares=np.concatenate(largest) / batch_size,
    )
