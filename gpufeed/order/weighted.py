"""A sampler that draws records by weight, with or without replacement."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gpufeed import rng
from gpufeed._util.identity import listed
from gpufeed.errors import ConfigError
from gpufeed.order.sampler import Int64, Sampler, Visits

__all__ = ["WeightedSampler", "balanced_weights"]

Float64 = npt.NDArray[np.float64]


def balanced_weights(labels: npt.ArrayLike, power: float = 1.0) -> Float64:
    """Return weights that make rare classes occur more often than their share of the records.

    Args:
        labels: int (n,), classes of the records.
        power: 1 makes all classes occur equally often; 0.5 is square-root sampling (Mahajan et al.,
            "Exploring the limits of weakly supervised pretraining", ECCV 2018); 0 changes nothing.

    Returns:
        float64 (n,), 1 / (number of records in its class) ** power for each record.

    Raises:
        ConfigError: the labels are not integers, or power is negative or not a number.
    """
    classes = np.asarray(labels)
    if classes.ndim != 1 or classes.dtype.kind not in "iu":
        raise ConfigError(f"labels are {classes.dtype} {classes.shape}; they must be integers (n,)")
    if not 0 <= power < math.inf:
        raise ConfigError(f"power is {power}; it must be a number of 0 or more")
    _, place, counts = np.unique(classes, return_inverse=True, return_counts=True)
    if power in (0.5, 1.0):
        weights = 1.0 / (counts if power == 1.0 else np.sqrt(counts))
    else:
        weights = rng.exp(power * rng.minus_log(counts.astype(np.float64)))
    return np.asarray(weights[place])


class WeightedSampler(Sampler):
    """Records drawn with probabilities proportional to their weights.

    The number of records is not limited to 2**24, as in torch.

    Args:
        weights: (n,), one for each record of the manifest, 0 or more, at least one above 0.
        replacement: True draws each position independently, so records may repeat. False draws no
            record twice in an epoch (Efraimidis and Spirakis, "Weighted random sampling with a
            reservoir", 2006), which takes O(n log n) once per epoch.
        seed: seed of the draws and of the transforms.
        num_epochs: number of epochs; None for no end.
        epoch_size: number of positions in an epoch; by default n with replacement, and otherwise
            the number of records with a weight above 0.

    Raises:
        ConfigError: a weight or argument is out of range; the message names it.
    """

    def __init__(
        self,
        weights: npt.ArrayLike,
        *,
        replacement: bool = True,
        seed: int = 0,
        num_epochs: int | None = None,
        epoch_size: int | None = None,
    ) -> None:
        given = np.asarray(weights)
        if given.ndim != 1 or not len(given) or given.dtype.kind not in "iuf":
            raise ConfigError(
                f"weights are {given.dtype} {given.shape}; they must be numbers (n,), one for each "
                "record"
            )
        values = given.astype(np.float64)
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if len(bad):
            raise ConfigError(f"weights[{bad[0]}] is {given[bad[0]]}; it must be 0 or more")
        positive = np.flatnonzero(values)
        if not len(positive):
            raise ConfigError("all weights are 0; at least one must be above 0")
        super().__init__(
            len(values),
            seed=seed,
            num_epochs=num_epochs,
            epoch_size=len(positive) if epoch_size is None and not replacement else epoch_size,
        )
        self.replacement = bool(replacement)
        if not replacement and self.epoch_size > len(positive):
            raise ConfigError(
                f"epoch_size is {self.epoch_size}, but only {len(positive)} records have a weight "
                "above 0; without replacement, none occurs twice in an epoch"
            )
        self._positive = positive
        self._weights = values[positive]
        # cumsum adds from left to right on every machine; the order of additions in sum may differ.
        with np.errstate(over="ignore"):
            self._ends = np.cumsum(self._weights)
        if not np.isfinite(self._ends[-1]):
            raise ConfigError("the weights add up to more than a float64 can hold; scale them down")
        self._orders: dict[int, Int64] = {}

    def visits(self, positions: Int64) -> Visits:
        """Return the records at `positions`."""
        epoch, place = np.divmod(positions, self.epoch_size)
        if self.replacement:
            draws = rng.BatchRng(self.seed, epoch, place, rng.CHOICE_STREAM).uniform()
            index = np.searchsorted(self._ends, draws * self._ends[-1], side="right")
            # A product that is rounded up may equal the last end.
            record = self._positive[np.minimum(index, len(self._positive) - 1)]
            return Visits(epoch, record, place)
        record = np.empty_like(place)
        for number in np.unique(epoch):
            here = epoch == number
            record[here] = self._order(int(number))[place[here]]
        return Visits(epoch, record, record)

    def _order(self, epoch: int) -> Int64:
        """Return the order of an epoch without replacement; the last two are cached."""
        order = self._orders.get(epoch)
        if order is None:
            order = self._draw_order(epoch)
            # A new dict, since another thread may be reading this one.
            self._orders = {**dict([*self._orders.items()][-1:]), epoch: order}
        return order

    def _draw_order(self, epoch: int) -> Int64:
        epochs = np.full(len(self._positive), epoch)
        draws = rng.BatchRng(self.seed, epochs, self._positive, rng.CHOICE_STREAM).uniform()
        with np.errstate(over="ignore"):  # a tiny weight overflows to infinity, and sorts last
            times = rng.minus_log(1.0 - draws) / self._weights
        return np.asarray(self._positive[np.argsort(times, kind="stable")[: self.epoch_size]])

    @property
    def has_repeats(self) -> bool:
        """Whether a record may occur more than once in an epoch."""
        return self.replacement

    @property
    def identity(self) -> dict[str, object]:
        """Everything that decides the order, as JSON values."""
        weights = np.zeros(self.num_records)
        weights[self._positive] = self._weights
        return {
            "kind": "WeightedSampler",
            "weights": listed(weights),
            "replacement": self.replacement,
            "seed": self.seed,
            "epoch_size": self.epoch_size,
        }
