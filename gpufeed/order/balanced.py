"""A sampler of batches with P classes and K records of each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpufeed._util.identity import listed
from gpufeed.errors import ConfigError
from gpufeed.order.permutation import permute_each
from gpufeed.order.sampler import Int64, Sampler, Visits, check_count

__all__ = ["ClassBalancedBatchSampler"]

# Purposes of permutations: round r shuffles the classes with purpose r. The t-th shuffle of class
# c's records has purpose (c + 1) << 32 | t.


class ClassBalancedBatchSampler(Sampler):
    """Groups of P classes with K records of each, as used in metric learning.

    The "PK" batches of Hermans et al., "In defense of the triplet loss" (2017). Positions
    i * P * K to (i + 1) * P * K - 1 are one group, so the global batch should be a multiple of
    P * K. All classes occur equally often, and within a class all records do, in an order that is
    reshuffled for each epoch. Within a group no class occurs twice, nor does a record of a class
    that has at least K of them; the records of smaller classes repeat, augmented differently each
    time.

    Args:
        labels: int (n,), the classes of the manifest's records: `manifest.frame["label"]`.
        classes_per_batch: P, at most the number of classes.
        records_per_class: K.
        seed: seed of the order and of the transforms.
        num_epochs: number of epochs; None for no end.
        epoch_size: number of positions in an epoch, a multiple of P * K. By default, the number of
            records rounded down to a multiple of P * K, but at least one group.

    Raises:
        ConfigError: an argument is out of range; the message names it.
    """

    def __init__(
        self,
        labels: npt.ArrayLike,
        *,
        classes_per_batch: int,
        records_per_class: int,
        seed: int = 0,
        num_epochs: int | None = None,
        epoch_size: int | None = None,
    ) -> None:
        values = np.asarray(labels)
        if values.ndim != 1 or not len(values) or values.dtype.kind not in "iu":
            raise ConfigError(
                f"labels are {values.dtype} {values.shape}; they must be integers (n,), one for "
                "each record"
            )
        self.classes_per_batch = check_count("classes_per_batch", classes_per_batch, 1 << 20)
        self.records_per_class = check_count("records_per_class", records_per_class, 1 << 20)
        self.group = group = self.classes_per_batch * self.records_per_class
        if epoch_size is None:
            epoch_size = max(len(values) // group, 1) * group
        super().__init__(len(values), seed=seed, num_epochs=num_epochs, epoch_size=epoch_size)
        if self.epoch_size % group:
            raise ConfigError(
                f"epoch_size is {self.epoch_size}; it must be a multiple of "
                f"{self.classes_per_batch} classes x {self.records_per_class} records"
            )
        # The records sorted by class, and the start of each class.
        self._records = np.argsort(values, kind="stable").astype(np.int64)
        _, counts = np.unique(values, return_counts=True)
        self._counts = counts.astype(np.int64)
        self._starts = np.cumsum(self._counts) - self._counts
        if self.classes_per_batch > len(counts):
            raise ConfigError(
                f"classes_per_batch is {self.classes_per_batch}; the labels have {len(counts)} "
                "classes"
            )

    def visits(self, positions: Int64) -> Visits:
        """Return the records at `positions`."""
        epoch, within = np.divmod(positions, self.epoch_size)
        slot, copy = np.divmod(within, self.records_per_class)
        group, place = np.divmod(slot, self.classes_per_batch)
        # In each round the classes are shuffled and dealt into groups, as long as enough are left
        # for a whole group. So a class occurs at most once per round.
        groups_per_round = len(self._counts) // self.classes_per_batch
        round_, dealt = np.divmod(group, groups_per_round)
        classes = permute_each(
            dealt * self.classes_per_batch + place, len(self._counts), self.seed, epoch, round_
        )
        return Visits(epoch, self._record(epoch, classes, round_, copy), within)

    def _record(self, epoch: Int64, classes: Int64, round_: Int64, copy: Int64) -> Int64:
        """Return the `copy`-th record of each class in this round."""
        count = self._counts[classes]
        # A class's shuffled records are dealt in hands of K, as long as K are left.
        hands = np.maximum(count // self.records_per_class, 1)
        shuffles, hand = np.divmod(round_, hands)
        index = (hand * self.records_per_class + copy) % count
        place = permute_each(index, count, self.seed, epoch, (classes + 1) << 32 | shuffles)
        return np.asarray(self._records[self._starts[classes] + place])

    @property
    def identity(self) -> dict[str, object]:
        """Everything that decides the order, as JSON values."""
        # Ranks, since the order depends only on which labels are equal and how they sort.
        labels = np.empty(self.num_records, dtype=np.int64)
        labels[self._records] = np.repeat(np.arange(len(self._counts)), self._counts)
        return {
            "kind": "ClassBalancedBatchSampler",
            "labels": listed(labels),
            "classes_per_batch": self.classes_per_batch,
            "records_per_class": self.records_per_class,
            "seed": self.seed,
            "epoch_size": self.epoch_size,
        }
