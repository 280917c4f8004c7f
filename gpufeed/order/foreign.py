"""Adapters for samplers of other libraries: torch and Grain."""

from __future__ import annotations

import copy
import operator
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sized
from typing import Any

import numpy as np

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.order.sampler import Int64, Sampler, Visits
from gpufeed.order.uniform import SubsetSampler

__all__ = ["GrainSampler", "RecordedSampler", "adopt"]

_MIN_EPOCHS_KEPT, _MAX_POSITIONS_KEPT = 4, 1 << 20
"""Recorded epochs to keep: at least this many, and more while they have no more positions.

Batches are prefetched from the next epochs, and made again from the previous ones.
"""

_USE_RANGE = "make it of MapDataset.range(len(manifest)), without batch()"
_USE_INNER = "for a batch sampler, pass its inner sampler, and batch_size to the Loader"


def adopt(sampler: object, num_records: int) -> Sampler:
    """Return a sampler of any supported kind as a `Sampler`.

    Raises:
        ConfigError: it is neither a supported sampler nor a list of record keys, or it is made for
            another number of records.
    """
    if isinstance(sampler, Sampler):
        _check_made_for(sampler.num_records, num_records)
        return sampler
    given: Any = sampler
    if isinstance(sampler, Sized) and hasattr(sampler, "__array__"):
        sampler = np.asarray(sampler)
    if isinstance(sampler, range | list | tuple | np.ndarray) and len(sampler):
        # A fixed order needs no recording.
        if all(isinstance(key, int | np.integer) for key in sampler):
            return SubsetSampler(num_records, np.asarray(sampler))
    elif isinstance(sampler, Sized) and not isinstance(given, str | bytes | Mapping):
        indexed = hasattr(given, "__getitem__") and len(given)
        if indexed and (_is_grains(given) or hasattr(given[0], "record_key")):
            return GrainSampler(given, num_records)
        if isinstance(sampler, Iterable):
            return RecordedSampler(given, num_records)
    raise ConfigError(
        f"sampler is {short(sampler)}; it must be a gpufeed, torch or Grain sampler, or an "
        "iterable of record keys that has a length"
    )


class GrainSampler(Sampler):
    """A Grain sampler, or any other that returns a `record_key` for an index; or a `MapDataset`.

    Its order is used unchanged. It is queried index by index, so its Python code limits the speed.
    Random transforms are keyed by its seed and the position within the epoch. The elements of a
    `MapDataset` are record keys, as those of `MapDataset.range(len(manifest)).shuffle(seed=0)`. Its
    length is that of an epoch, and epochs continue without end, each shuffled anew, as Grain's
    `repeat` has them.

    Args:
        source: has `source[index].record_key` and `len(source)`, which in Grain is `sys.maxsize`
            for a sampler without end; or a `MapDataset` of record keys.
        num_records: length of the manifest, and of a sampler's epoch.
        seed: seed of the transforms; by default the sampler's own seed, or 0 if it has none.

    Raises:
        ConfigError: the sampler shards its order itself, is made for another number of records, or
            does not end with a whole epoch; or a `MapDataset` has no end.
    """

    def __init__(self, source: Any, num_records: int, *, seed: int | None = None) -> None:
        shards = getattr(getattr(source, "_shard_options", None), "shard_count", 1)
        if shards != 1:
            raise ConfigError(
                f"{short(source)} shards its order itself; create it without shard_options, and "
                "pass shard=gpufeed.ShardOptions(shard_index, shard_count) to the Loader"
            )
        # The length of an endless sampler does not tell.
        _check_made_for(getattr(source, "_num_records", num_records), num_records)
        length = len(source)
        endless = length >= 1 << 62
        is_dataset = _is_grains(source) and not hasattr(source[0], "record_key")
        if is_dataset and endless:
            raise ConfigError(
                f"{_kind(source)} has no end, which leaves open where an epoch ends; leave out "
                "repeat(), since epochs continue anyway"
            )
        if not (is_dataset or endless) and length % num_records:
            raise ConfigError(
                f"{short(source)} ends after {length} records; it must be a multiple of the "
                f"{num_records} records of an epoch"
            )
        super().__init__(
            num_records,
            seed=_seed_of(source) if seed is None else seed,
            num_epochs=None if endless or is_dataset else length // num_records,
            epoch_size=length if is_dataset else num_records,
        )
        self._source = source

    def visits(self, positions: Int64) -> Visits:
        """Return the records at `positions`."""
        epoch, within = np.divmod(positions, self.epoch_size)
        items = [self._source[place] for place in positions.tolist()]
        keys = _to_keys([getattr(item, "record_key", item) for item in items], self._source)
        return Visits(epoch, _check_keys(keys, self), within)

    @property
    def identity(self) -> dict[str, object]:
        """What is known about the order: the sampler's kind, repr and length, and the seed."""
        return {**_describe(self, self._source), "epoch_size": self.epoch_size}


class RecordedSampler(Sampler):
    """A torch sampler, or any iterable of record keys, whose order is recorded.

    The source is iterated once per epoch. If it has a `set_epoch`, like torch's DistributedSampler,
    any epoch is available at any time. Otherwise epochs are available only in sequence, and the
    last ones are kept. The loader then cannot start in a later epoch, return to one that is no
    longer kept, resume from a saved state in another process, or share the sampler with other
    processes; each attempt raises an error. A Loader turns a list or array into a `SubsetSampler`,
    which has no such limits.

    A distributed sampler of torch shards its order itself: pass it to a Loader without `shard`.

    The first visit to a record in an epoch draws the same random numbers at any position.

    Args:
        source: iterable of integers whose length is the number of positions in an epoch.
        num_records: length of the manifest.
        seed: seed of the transforms; by default the sampler's own `seed`, or 0 if it has none.
        num_epochs: number of epochs; None for no end.

    Raises:
        ConfigError: the source is empty, yields batches, or is a sampler of torch's that is made
            for another number of records.
    """

    def __init__(
        self,
        source: Any,
        num_records: int,
        *,
        seed: int | None = None,
        num_epochs: int | None = None,
    ) -> None:
        if not len(source):
            raise ConfigError(f"the sampler {short(source)} is empty")
        if hasattr(source, "sampler") and hasattr(source, "batch_size"):
            raise ConfigError(f"{_kind(source)} yields batches; {_USE_INNER}")
        if _kind(source).startswith(("torch.", "torchdata.")):  # others give these another meaning
            for name in ("data_source", "dataset", "weights"):
                made_for = getattr(source, name, None)
                if isinstance(made_for, Sized):
                    _check_made_for(len(made_for), num_records)
        super().__init__(
            num_records,
            seed=_seed_of(source) if seed is None else seed,
            num_epochs=num_epochs,
            epoch_size=len(source),
        )
        self.addressable = hasattr(source, "set_epoch")
        shards = getattr(source, "num_replicas", 1)
        self.own_shards = shards if isinstance(shards, int) else 1
        self._source = source
        self._lock = threading.Lock()
        self._orders: OrderedDict[int, tuple[Int64, Int64]] = OrderedDict()
        self._next = 0
        self._announced = getattr(source, "epoch", None)

    def check_announced(self, epoch: int) -> None:
        """Raise `ConfigError` if the source was set to another epoch than the one that begins."""
        with self._lock:
            announced = getattr(self._source, "epoch", None)
            if self.addressable and announced not in (self._announced, epoch):
                raise ConfigError(
                    f"{_kind(self._source)} was set to epoch {announced}, but the loader is in "
                    f"epoch {epoch}, and goes through the epochs by itself; to begin epoch "
                    f"{announced}, call loader.set_epoch({announced})"
                )
            self._announced = announced

    def check_reachable(self, epoch: int, *, begun: bool = False) -> None:
        """Raise `ConfigError` if the order of this epoch is not available."""
        with self._lock:
            self._check(epoch, begun)

    def _check(self, epoch: int, begun: bool) -> None:
        if self.addressable or epoch in self._orders or (epoch == self._next and not begun):
            return
        raise ConfigError(
            f"the order of epoch {epoch} is not available from {_kind(self._source)}: epochs come "
            f"in sequence, the next is epoch {self._next}, and only the last ones are kept; use a "
            "gpufeed sampler, or one with set_epoch(), to access any batch and resume from a state"
        )

    def visits(self, positions: Int64) -> Visits:
        """Return the records at `positions`."""
        epoch, within = np.divmod(positions, self.epoch_size)
        record_keys, draw_keys = np.empty_like(within), np.empty_like(within)
        for number in np.unique(epoch).tolist():
            here = epoch == number
            records, draws = self._order(number)
            record_keys[here], draw_keys[here] = records[within[here]], draws[within[here]]
        return Visits(epoch, record_keys, draw_keys)

    def _order(self, epoch: int) -> tuple[Int64, Int64]:
        """Return the record keys and the draw keys of an epoch."""
        with self._lock:
            self._check(epoch, begun=False)
            if epoch not in self._orders:
                source = self._source
                if self.addressable:  # a copy, since the user may set another epoch meanwhile
                    source = copy.copy(source)
                    source.set_epoch(epoch)
                self._orders[epoch] = self._record(source)
                self._next = max(self._next, epoch + 1)
                kept = max(_MIN_EPOCHS_KEPT, _MAX_POSITIONS_KEPT // self.epoch_size)
                while len(self._orders) > kept:
                    self._orders.popitem(last=False)
            return self._orders[epoch]

    def _record(self, source: Any) -> tuple[Int64, Int64]:
        keys = _to_keys(source, source)
        if len(keys) != self.epoch_size:
            raise ConfigError(
                f"{_kind(source)} yielded {len(keys)} record keys, but its length is "
                f"{self.epoch_size}"
            )
        keys = _check_keys(keys, self)
        # The k-th visit to a record has draw key k * num_records + record_key.
        by_key = np.argsort(keys, kind="stable")
        ordered = keys[by_key]
        first = np.searchsorted(ordered, ordered, side="left")
        visit = np.empty_like(keys)
        visit[by_key] = np.arange(len(keys)) - first
        return keys, visit * self.num_records + keys

    @property
    def identity(self) -> dict[str, object]:
        """What is known about the order: the sampler's kind and repr, length, seed and shards."""
        return {
            **_describe(self, self._source),
            "epoch_size": self.epoch_size,
            "own_shards": self.own_shards,
        }


def _check_made_for(count: int, num_records: int) -> None:
    if count != num_records:
        raise ConfigError(
            f"the sampler is for {count} records, the manifest has {num_records}; make it for this "
            "manifest, or pass a list of record keys for a subset"
        )


def _to_keys(items: Iterable[Any], source: object) -> Int64:
    try:
        return np.array([operator.index(item) for item in items], dtype=np.int64)
    except TypeError as error:
        grains = _kind(source).endswith("MapDataset")
        raise ConfigError(
            f"{_kind(source)} yields something other than record keys ({error}); "
            f"{_USE_RANGE if grains else _USE_INNER}"
        ) from None


def _check_keys(keys: Int64, sampler: Sampler) -> Int64:
    outside = (keys < 0) | (keys >= sampler.num_records)
    if outside.any():
        raise ConfigError(
            f"the sampler returned record key {keys[outside][0]}; the manifest has rows 0 to "
            f"{sampler.num_records - 1}"
        )
    return keys


def _seed_of(source: object) -> int:
    seed = getattr(source, "seed", getattr(source, "_seed", None))
    return seed if isinstance(seed, int) else 0


def _is_grains(source: object) -> bool:
    return any(each.__module__.startswith("grain.") for each in type(source).__mro__)


def _kind(source: object) -> str:
    return f"{type(source).__module__}.{type(source).__qualname__}"


def _describe(sampler: Sampler, source: object) -> dict[str, object]:
    # The number of epochs is no part of the identity, so that a run can be extended.
    text = re.sub(r",? ?num_epochs=\w+", "", repr(source))
    # Python's default repr contains an address, which differs between processes.
    return {
        "kind": type(sampler).__name__,
        "source": _kind(source) if " at 0x" in text or len(text) > 300 else text,
        "num_records": sampler.num_records,
        "seed": sampler.seed,
    }
