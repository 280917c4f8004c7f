"""Samplers in which every record, or every one of some, comes equally often."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpufeed._util.identity import pack
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
    """Every record once an epoch, in a global order shuffled anew for each epoch.

    Args:
        num_records: length of the manifest.
        shuffle: False gives the manifest's order.
        seed: of the shuffle and of the transforms.
        num_epochs: None for no end.
        epoch_size: positions of a virtual epoch; `num_records` where none is given. A shuffled
            epoch then begins with a new shuffle and, where it is longer than the manifest, goes on
            with others; one that is not shuffled begins where the last one ended.
    """

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
        """Return which records come at `positions`."""
        epoch, turn, record = self._places(positions, self.num_records)
        return Visits(epoch, record, turn * self.num_records + record)

    def _places(self, positions: Int64, length: int) -> tuple[Int64, Int64, Int64]:
        """The epoch, how many times the list was gone through in it before, and the place in it."""
        epoch, within = np.divmod(positions, self.epoch_size)
        turn, index = np.divmod(within, length)
        if not self.shuffle:
            return epoch, turn, positions % length
        return epoch, turn, permute_each(index, length, self.seed, epoch, turn)

    @property
    def has_repeats(self) -> bool:
        """Whether a record may come more than once in an epoch."""
        return self.epoch_size > self.num_records

    @property
    def identity(self) -> dict[str, object]:
        """What decides the order."""
        return {
            "kind": type(self).__name__,
            "num_records": self.num_records,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "epoch_size": self.epoch_size,
        }


class SequentialSampler(IndexSampler):
    """Every record once an epoch, in the manifest's order.

    With last_batch="drop" the same records fall away at the end of each epoch; of a shuffled
    order, others each time.

    Args:
        num_records: length of the manifest.
        seed: of the transforms.
        num_epochs: None for no end.
        epoch_size: positions of a virtual epoch, which begins where the last one ended;
            `num_records` where none is given.
    """

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
        """What decides the order."""
        described = super().identity
        del described["shuffle"]
        return described


class SubsetSampler(IndexSampler):
    """Some of the records, each as often as it is listed, in every epoch.

    Args:
        num_records: length of the manifest.
        record_keys: int (n,), rows of the manifest.
        shuffle: False gives their order in `record_keys`.
        seed: of the shuffle and of the transforms.
        num_epochs: None for no end.
        epoch_size: as for `IndexSampler`; the number of `record_keys` where none is given.

    Raises:
        ConfigError: there is no key, or one that is no row of the manifest.
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
                f"record_keys[{outside[0]}] is {keys[outside[0]]}; the manifest has the rows 0 to "
                f"{self.num_records - 1}"
            )
        self.record_keys = keys.astype(np.int64)
        self.record_keys.flags.writeable = False
        self._listed_twice = len(np.unique(keys)) < len(keys)

    def visits(self, positions: Int64) -> Visits:
        """Return which records come at `positions`."""
        epoch, turn, place = self._places(positions, len(self.record_keys))
        keys = self.record_keys[place]
        if self._listed_twice:
            return Visits(epoch, keys, turn * len(self.record_keys) + place)
        return Visits(epoch, keys, turn * self.num_records + keys)

    @property
    def has_repeats(self) -> bool:
        """Whether a record may come more than once in an epoch."""
        return self._listed_twice or self.epoch_size > len(self.record_keys)

    @property
    def identity(self) -> dict[str, object]:
        """What decides the order."""
        return {**super().identity, "record_keys": pack(self.record_keys)}


class RepeatedAugmentationSampler(Sampler):
    """Every record several times in a row, each time augmented differently.

    The order of Berman et al., "MultiGrain" (2019) and Hoffer et al., "Augment your batch" (CVPR
    2020), as DeiT trains with it: shuffled anew for each epoch, every record `repeats` times, and
    an epoch as long as the manifest, so that it shows a part of the records. Take a global batch
    that is a multiple of `repeats`.

    Args:
        num_records: length of the manifest.
        repeats: how many times in a row a record comes.
        seed: of the shuffle and of the transforms.
        num_epochs: None for no end.
        epoch_size: positions of an epoch; `num_records` where none is given. All records come
            with `num_records * repeats`.
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
        """Return which records come at `positions`."""
        epoch, within = np.divmod(positions, self.epoch_size)
        place, copy = np.divmod(within, self.repeats)
        turn, index = np.divmod(place, self.num_records)
        record = permute_each(index, self.num_records, self.seed, epoch, turn)
        return Visits(epoch, record, (turn * self.repeats + copy) * self.num_records + record)

    @property
    def identity(self) -> dict[str, object]:
        """What decides the order."""
        return {
            "kind": "RepeatedAugmentationSampler",
            "num_records": self.num_records,
            "repeats": self.repeats,
            "seed": self.seed,
            "epoch_size": self.epoch_size,
        }
