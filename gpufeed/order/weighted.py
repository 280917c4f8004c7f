"""Records drawn by weight, with and without replacement."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gpufeed import rng
from gpufeed._util.identity import pack
from gpufeed.errors import ConfigError
from gpufeed.order.sampler import Int64, Sampler, Visits

__all__ = ["WeightedSampler", "balanced_weights"]

Float64 = npt.NDArray[np.float64]


def balanced_weights(labels: npt.ArrayLike, power: float = 1.0) -> Float64:
    """Return weights with which rare classes come more often than they are.

    Args:
        labels: int (n,), classes of the records.
        power: 1 has every class come equally often; 0.5 weighs by the square root (Mahajan et al.,
            "Exploring the limits of weakly supervised pretraining", ECCV 2018); 0 changes nothing.

    Returns:
        float64 (n,), 1 / (number of records of its class) ** power, for each record.

    Raises:
        ConfigError: the labels are no integers, or power is negative or no number.
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
    """Records drawn with a probability in proportion to their weights.

    Any number of records: torch's ends at 2**24.

    Args:
        weights: (n,), one for each record of the manifest, 0 or more, at least one above 0.
        replacement: True draws each position by itself, so that records repeat. False draws until
            the epoch is full, no record twice in it (Efraimidis and Spirakis, "Weighted random
            sampling with a reservoir", 2006): O(n log n) once an epoch.
        seed: of the draws and of the transforms.
        num_epochs: None for no end.
        epoch_size: positions of an epoch. Where none is given: with replacement n, without it the
            number of records that have a weight above 0.

    Raises:
        ConfigError: naming the weight or argument that is out of range.
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
        likely = np.flatnonzero(values)
        if not len(likely):
            raise ConfigError("all weights are 0; at least one must be above")
        super().__init__(
            len(values),
            seed=seed,
            num_epochs=num_epochs,
            epoch_size=len(likely) if epoch_size is None and not replacement else epoch_size,
        )
        self.replacement = bool(replacement)
        if not replacement and self.epoch_size > len(likely):
            raise ConfigError(
                f"epoch_size is {self.epoch_size}, but only {len(likely)} records have a weight "
                "above 0; without replacement none comes twice in an epoch"
            )
        self._likely = likely
        self._weights = values[likely]
        # Added from left to right, which is the same on every machine; a sum in pairs need not be.
        with np.errstate(over="ignore"):
            self._ends = np.cumsum(self._weights)
        if not np.isfinite(self._ends[-1]):
            raise ConfigError("the weights add up to more than a float64 can hold; scale them down")
        self._orders: dict[int, Int64] = {}

    def visits(self, positions: Int64) -> Visits:
        """Return which records come at `positions`."""
        epoch, place = np.divmod(positions, self.epoch_size)
        if self.replacement:
            drawn = rng.BatchRng(self.seed, epoch, place, rng.CHOICE_STREAM).uniform()
            chosen = np.searchsorted(self._ends, drawn * self._ends[-1], side="right")
            # Rounded up, a product may reach the last end.
            record = self._likely[np.minimum(chosen, len(self._likely) - 1)]
            return Visits(epoch, record, place)
        record = np.empty_like(place)
        for number in np.unique(epoch):
            here = epoch == number
            record[here] = self._order(int(number))[place[here]]
        return Visits(epoch, record, record)

    def _order(self, epoch: int) -> Int64:
        """The order of an epoch without replacement; the last two are kept."""
        order = self._orders.get(epoch)
        if order is None:
            order = self._draw_order(epoch)
            # A new dict, since another thread may be at this one.
            self._orders = {**dict([*self._orders.items()][-1:]), epoch: order}
        return order

    def _draw_order(self, epoch: int) -> Int64:
        epochs = np.full(len(self._likely), epoch)
        drawn = rng.BatchRng(self.seed, epochs, self._likely, rng.CHOICE_STREAM).uniform()
        with np.errstate(over="ignore"):  # of a weight as small as numbers get
            times = rng.minus_log(1.0 - drawn) / self._weights
        return np.asarray(self._likely[np.argsort(times, kind="stable")[: self.epoch_size]])

    @property
    def has_repeats(self) -> bool:
        """Whether a record may come more than once in an epoch."""
        return self.replacement

    @property
    def identity(self) -> dict[str, object]:
        """What decides the order."""
        weights = np.zeros(self.num_records)
        weights[self._likely] = self._weights
        return {
            "kind": "WeightedSampler",
            "weights": pack(weights),
            "replacement": self.replacement,
            "seed": self.seed,
            "epoch_size": self.epoch_size,
        }
