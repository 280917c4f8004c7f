"""Batches of P classes with K records each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpufeed._util.identity import pack
from gpufeed.errors import ConfigError
from gpufeed.order.permutation import permute_each
from gpufeed.order.sampler import Int64, Sampler, Visits, check_count

__all__ = ["ClassBalancedBatchSampler"]

# What permutations are for: round r shuffles the classes by purpose r, and class c its records, for
# the t-th time, by purpose (c + 1) << 32 | t.


class ClassBalancedBatchSampler(Sampler):
    """Groups of P classes with K records of each, as metric learning wants its batches.

    The "PK" batches of Hermans et al., "In defense of the triplet loss" (2017). Positions
    i * P * K to (i + 1) * P * K - 1 hold one group: take a global batch of P * K, or of a multiple.
    Classes come equally often, each record of a class equally often within it, in an order
    shuffled anew for each epoch. Within a group no class comes twice, and no record of a class
    that has K of them; smaller classes repeat theirs, each time augmented differently.

    Args:
        labels: int (n,), the classes of the manifest's records: `manifest.frame["label"]`.
        classes_per_batch: P, at most the number of classes there are.
        records_per_class: K.
        seed: of the order and of the transforms.
        num_epochs: None for no end.
        epoch_size: positions of an epoch, a multiple of P * K; where none is given, the number of
            records, rounded down to one, or a single group.

    Raises:
        ConfigError: naming the argument that is out of range.
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
        given = np.asarray(labels)
        if given.ndim != 1 or not len(given) or given.dtype.kind not in "iu":
            raise ConfigError(
                f"labels are {given.dtype} {given.shape}; they must be integers (n,), one for each "
                "record"
            )
        self.classes_per_batch = check_count("classes_per_batch", classes_per_batch, 1 << 20)
        self.records_per_class = check_count("records_per_class", records_per_class, 1 << 20)
        self.group = group = self.classes_per_batch * self.records_per_class
        if epoch_size is None:
            epoch_size = max(len(given) // group, 1) * group
        super().__init__(len(given), seed=seed, num_epochs=num_epochs, epoch_size=epoch_size)
        if self.epoch_size % group:
            raise ConfigError(
                f"epoch_size is {self.epoch_size}, no multiple of {self.classes_per_batch} classes "
                f"x {self.records_per_class} records"
            )
        # The records sorted by class, and where each class begins.
        self._records = np.argsort(given, kind="stable").astype(np.int64)
        _, counts = np.unique(given, return_counts=True)
        self._counts = counts.astype(np.int64)
        self._starts = np.cumsum(self._counts) - self._counts
        if self.classes_per_batch > len(counts):
            raise ConfigError(
                f"classes_per_batch is {self.classes_per_batch}; the labels have {len(counts)} "
                "classes"
            )

    def visits(self, positions: Int64) -> Visits:
        """Return which records come at `positions`."""
        epoch, within = np.divmod(positions, self.epoch_size)
        slot, copy = np.divmod(within, self.records_per_class)
        group, place = np.divmod(slot, self.classes_per_batch)
        # Groups are dealt from the shuffled classes, as many as are left for a whole group; each
        # class comes at most once in such a round.
        groups = len(self._counts) // self.classes_per_batch
        turn, dealt = np.divmod(group, groups)
        chosen = permute_each(
            dealt * self.classes_per_batch + place, len(self._counts), self.seed, epoch, turn
        )
        return Visits(epoch, self._record(epoch, chosen, turn, copy), within)

    def _record(self, epoch: Int64, chosen: Int64, turn: Int64, copy: Int64) -> Int64:
        """The record that a class gives as its `copy`-th of round `turn`."""
        count = self._counts[chosen]
        # Its shuffled records are dealt K at a time, as often as there are K left.
        hands = np.maximum(count // self.records_per_class, 1)
        times, hand = np.divmod(turn, hands)
        index = (hand * self.records_per_class + copy) % count
        place = permute_each(index, count, self.seed, epoch, (chosen + 1) << 32 | times)
        return np.asarray(self._records[self._starts[chosen] + place])

    @property
    def identity(self) -> dict[str, object]:
        """What decides the order."""
        # Numbered from 0: which labels are the same decides the order, and which is less.
        labels = np.empty(self.num_records, dtype=np.int64)
        labels[self._records] = np.repeat(np.arange(len(self._counts)), self._counts)
        return {
            "kind": "ClassBalancedBatchSampler",
            "labels": pack(labels),
            "classes_per_batch": self.classes_per_batch,
            "records_per_class": self.records_per_class,
            "seed": self.seed,
            "epoch_size": self.epoch_size,
        }
