"""Samplers in which all records, or all of a subset, occur equally often."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpufeed._util.hints import explain
from gpufeed._util.identity import listed
from gpufeed.errors import ConfigError
from gpufeed.order.permutation import permute_each
from gpufeed.order.sampler import Int64, Sampler, Visits, check_count

__all__ = [
    "IndexSampler",
    "RepeatedAugmentationSampler",
    "SequentialSampler",
    "SubsetSampler",
]


class IndexSampler(Sampler):
    """Every record once per epoch, in a global order that is reshuffled for each epoch.

    Args:
        num_records: length of the manifest.
        shuffle: whether to shuffle; False keeps the manifest's order.
        seed: seed of the shuffle and of the transforms.
        num_epochs: number of epochs; None for no end.
        epoch_size: number of positions in a virtual epoch; by default `num_records`. A shuffled
            virtual epoch starts with a new shuffle, and continues with further shuffles if it is
            longer than the manifest. Without shuffling, it starts where the last one ended.
    """

    @explain
    def __init__(
        self,
        num_records: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        num_epochs: int | None = None,
        epoch_size: int | None = None,
    ) -> None:
        super().__init__(num_records, seed=seed, num_epochs=num_epochs, epoch_size=epoch_size)
        self.shuffle = bool(shuffle)

    def visits(self, positions: Int64) -> Visits:
        """Return the records at `positions`."""
        epoch, pass_, record = self._locate(positions, self.num_records)
        return Visits(epoch, record, pass_ * self.num_records + record)

    def _locate(self, positions: Int64, length: int) -> tuple[Int64, Int64, Int64]:
        """Return the epoch, the pass over the list within the epoch, and the index in the list."""
        epoch, within = np.divmod(positions, self.epoch_size)
        pass_, index = np.divmod(within, length)
        if not self.shuffle:
            return epoch, pass_, positions % length
        return epoch, pass_, permute_each(index, length, self.seed, epoch, pass_)

    @property
    def has_repeats(self) -> bool:
        """Whether a record may occur more than once in an epoch."""
        return self.epoch_size > self.num_records

    @property
    def identity(self) -> dict[str, object]:
        """Everything that decides the order, as JSON values."""
        return {
            "kind": type(self).__name__,
            "num_records": self.num_records,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "epoch_size": self.epoch_size,
        }


class SequentialSampler(IndexSampler):
    """Every record once per epoch, in the manifest's order.

    With last_batch="drop", the same records are dropped at the end of each epoch. In a shuffled
    order they differ each time. `Loader.for_evaluation` drops none.

    Args:
        num_records: length of the manifest.
        seed: seed of the transforms.
        num_epochs: number of epochs; None for no end.
        epoch_size: number of positions in a virtual epoch, which starts where the last one ended;
            by default `num_records`.
    """

    @explain
    def __init__(
        self,
        num_records: int,
        *,
        seed: int = 0,
        num_epochs: int | None = None,
        epoch_size: int | None = None,
    ) -> None:
        super().__init__(num_records, seed=seed, num_epochs=num_epochs, epoch_size=epoch_size)

    @property
    def identity(self) -> dict[str, object]:
        """Everything that decides the order, as JSON values."""
        identity = super().identity
        del identity["shuffle"]
        return identity


class SubsetSampler(IndexSampler):
    """A subset of the records, each as often per epoch as it is listed.

    Args:
        num_records: length of the manifest.
        record_keys: int (n,), rows of the manifest.
        shuffle: whether to shuffle; False keeps the order of `record_keys`.
        seed: seed of the shuffle and of the transforms.
        num_epochs: number of epochs; None for no end.
        epoch_size: as for `IndexSampler`; by default the number of `record_keys`.

    Raises:
        ConfigError: there are no keys, or a key is not a row of the manifest.
    """

    def __init__(
        self,
        num_records: int,
        record_keys: npt.ArrayLike,
        *,
        shuffle: bool = False,
        seed: int = 0,
        num_epochs: int | None = None,
        epoch_size: int | None = None,
    ) -> None:
        keys = np.asarray(record_keys)
        if keys.ndim != 1 or not len(keys) or keys.dtype.kind not in "iu":
            raise ConfigError(
                f"record_keys is {keys.dtype} {keys.shape}; it must be integers (n,), at least one"
            )
        super().__init__(
            num_records,
            shuffle=shuffle,
            seed=seed,
            num_epochs=num_epochs,
            epoch_size=len(keys) if epoch_size is None else epoch_size,
        )
        outside = np.flatnonzero((keys < 0) | (keys >= self.num_records))
        if len(outside):
            raise ConfigError(
                f"record_keys[{outside[0]}] is {keys[outside[0]]}; the manifest has rows 0 to "
                f"{self.num_records - 1}"
            )
        self.record_keys = keys.astype(np.int64)
        self.record_keys.flags.writeable = False
        self._has_duplicates = len(np.unique(keys)) < len(keys)

    def visits(self, positions: Int64) -> Visits:
        """Return the records at `positions`."""
        epoch, pass_, index = self._locate(positions, len(self.record_keys))
        keys = self.record_keys[index]
        if self._has_duplicates:
            return Visits(epoch, keys, pass_ * len(self.record_keys) + index)
        return Visits(epoch, keys, pass_ * self.num_records + keys)

    @property
    def has_repeats(self) -> bool:
        """Whether a record may occur more than once in an epoch."""
        return self._has_duplicates or self.epoch_size > len(self.record_keys)

    @property
    def identity(self) -> dict[str, object]:
        """Everything that decides the order, as JSON values."""
        return {**super().identity, "record_keys": listed(self.record_keys)}


class RepeatedAugmentationSampler(Sampler):
    """Every record several times in a row, each time augmented differently.

    The order of Berman et al., "MultiGrain" (2019) and Hoffer et al., "Augment your batch" (CVPR
    2020), as used by DeiT: reshuffled for each epoch, with every record `repeats` times. By default
    an epoch is as long as the manifest, and so contains only a part of the records. Use a global
    batch that is a multiple of `repeats`.

    Args:
        num_records: length of the manifest.
        repeats: number of times in a row that a record occurs.
        seed: seed of the shuffle and of the transforms.
        num_epochs: number of epochs; None for no end.
        epoch_size: number of positions in an epoch; by default `num_records`. An epoch of
            `num_records * repeats` contains all records.
    """

    def __init__(
        self,
        num_records: int,
        *,
        repeats: int = 3,
        seed: int = 0,
        num_epochs: int | None = None,
        epoch_size: int | None = None,
    ) -> None:
        super().__init__(num_records, seed=seed, num_epochs=num_epochs, epoch_size=epoch_size)
        self.repeats = check_count("repeats", repeats, 1 << 16)

    def visits(self, positions: Int64) -> Visits:
        """Return the records at `positions`."""
        epoch, within = np.divmod(positions, self.epoch_size)
        place, copy = np.divmod(within, self.repeats)
        pass_, index = np.divmod(place, self.num_records)
        record = permute_each(index, self.num_records, self.seed, epoch, pass_)
        return Visits(epoch, record, (pass_ * self.repeats + copy) * self.num_records + record)

    @property
    def identity(self) -> dict[str, object]:
        """Everything that decides the order, as JSON values."""
        return {
            "kind": "RepeatedAugmentationSampler",
            "num_records": self.num_records,
            "repeats": self.repeats,
            "seed": self.seed,
            "epoch_size": self.epoch_size,
        }
