"""Samplers of other libraries, torch's and Grain's, taken as they are."""

from __future__ import annotations

import operator
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sized
from typing import Any

import numpy as np

from gpufeed.errors import ConfigError
from gpufeed.order.sampler import Int64, Sampler, Visits
from gpufeed.order.uniform import SubsetSampler

__all__ = ["GrainSampler", "RecordedSampler", "adopt"]

_KEPT, _KEPT_POSITIONS = 4, 1 << 20
"""Epochs whose order is kept at least; and more, as long as they have no more positions.

Batches are made ahead from the next epochs, and again from the last.
"""


def adopt(sampler: object, num_records: int) -> Sampler:
    """Return another library's sampler as one of gpufeed's.

    Raises:
        ConfigError: it is neither a sampler that gpufeed can take nor a list of record keys.
    """
    if isinstance(sampler, Sampler):
        return sampler
    given: Any = sampler
    if isinstance(sampler, range | list | tuple | np.ndarray) and len(sampler):
        # Its order is there, and stays: no more than a subset in an order of its own.
        if all(isinstance(key, int | np.integer) for key in sampler):
            return SubsetSampler(num_records, np.asarray(sampler))
    elif isinstance(sampler, Sized) and not isinstance(given, str | bytes | Mapping):
        if hasattr(given, "__getitem__") and len(given) and hasattr(given[0], "record_key"):
            return GrainSampler(given, num_records)
        if isinstance(sampler, Iterable):
            return RecordedSampler(given, num_records)
    raise ConfigError(
        f"sampler is {sampler!r}; it must be a gpufeed sampler, a torch or Grain sampler, or any "
        "iterable of record keys with a length"
    )


class GrainSampler(Sampler):
    """A sampler of Grain, or any other that gives a `record_key` for an index.

    Its order is used as it is, index by index, at the price of its Python. Random transforms are
    keyed by its seed and the place within the epoch.

    Args:
        source: `source[index].record_key`, and `len(source)`, which Grain has as `sys.maxsize` for
            no end.
        num_records: length of the manifest, and of an epoch.
        seed: of the transforms; where none is given, the sampler's own, or 0.

    Raises:
        ConfigError: it cuts its own shards, or ends within an epoch.
    """

    def __init__(self, source: Any, num_records: int, *, seed: int | None = None) -> None:
        shards = getattr(getattr(source, "_shard_options", None), "shard_count", 1)
        if shards != 1:
            raise ConfigError(
                f"{source!r} cuts its own shards; make it without shard_options, and give the "
                "Loader shard=gpufeed.ShardOptions(shard_index, shard_count)"
            )
        length = len(source)
        endless = length >= 1 << 62
        if not endless and length % num_records:
            raise ConfigError(
                f"{source!r} ends after {length} records, which is no number of whole epochs of "
                f"{num_records}"
            )
        super().__init__(
            num_records,
            seed=_seed_of(source) if seed is None else seed,
            num_epochs=None if endless else length // num_records,
        )
        self._source = source

    def visits(self, positions: Int64) -> Visits:
        """Return which records come at `positions`."""
        epoch, within = np.divmod(positions, self.epoch_size)
        keys = [operator.index(self._source[place].record_key) for place in positions.tolist()]
        return Visits(epoch, _checked(np.array(keys, dtype=np.int64), self), within)

    @property
    def identity(self) -> dict[str, object]:
        """What is known of it: its kind, its text, and the seed of the transforms."""
        return _described(self, self._source)


class RecordedSampler(Sampler):
    """The order of a torch sampler, or of any iterable of record keys, recorded as it comes.

    It is iterated once for each epoch. With a `set_epoch`, as torch's DistributedSampler has it,
    any epoch can be had at any time. Without one, epochs come in turn and are kept for a while: the
    loader can then neither begin in a later epoch nor go back to one that is no longer kept, nor go
    on from a saved state in another process, nor share it with other processes; each of these is an
    error that says so. A Loader takes a list or array as a `SubsetSampler`, which can do all that.

    A distributed sampler of torch cuts its own shards: give it to a Loader without `shard`.

    The first visit to a record in an epoch draws the same random numbers wherever it comes.

    Args:
        source: gives integers; has a length, the number of positions of an epoch.
        num_records: length of the manifest.
        seed: of the transforms; where none is given, the sampler's own `seed`, or 0.
        num_epochs: None for no end.
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
            raise ConfigError(f"the sampler {source!r} is empty")
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

    def check_reachable(self, epoch: int, *, begun: bool = False) -> None:
        """Raise `ConfigError` if the order of this epoch cannot be had."""
        with self._lock:
            self._check(epoch, begun)

    def _check(self, epoch: int, begun: bool) -> None:
        if self.addressable or epoch in self._orders or (epoch == self._next and not begun):
            return
        raise ConfigError(
            f"the order of epoch {epoch} cannot be had from {_kind(self._source)}: it comes epoch "
            f"by epoch, epoch {self._next} is the next, and only the last ones are kept; use a "
            "gpufeed sampler, or one that has set_epoch(), to go to any batch and on from a state"
        )

    def visits(self, positions: Int64) -> Visits:
        """Return which records come at `positions`."""
        epoch, within = np.divmod(positions, self.epoch_size)
        keys, draws = np.empty_like(within), np.empty_like(within)
        for number in np.unique(epoch).tolist():
            here = epoch == number
            order, drawn = self._order(number)
            keys[here], draws[here] = order[within[here]], drawn[within[here]]
        return Visits(epoch, keys, draws)

    def _order(self, epoch: int) -> tuple[Int64, Int64]:
        """The record keys of an epoch, and their draw keys."""
        with self._lock:
            self._check(epoch, begun=False)
            if epoch not in self._orders:
                if self.addressable:
                    self._source.set_epoch(epoch)
                self._orders[epoch] = self._record()
                self._next = max(self._next, epoch + 1)
                while len(self._orders) > max(_KEPT, _KEPT_POSITIONS // self.epoch_size):
                    self._orders.popitem(last=False)
            return self._orders[epoch]

    def _record(self) -> tuple[Int64, Int64]:
        kind = _kind(self._source)
        try:
            listed = [operator.index(key) for key in self._source]
        except TypeError as error:
            raise ConfigError(
                f"{kind} gives something else than record keys ({error}); of a batch sampler, "
                "give the sampler within, and batch_size to the Loader"
            ) from None
        if len(listed) != self.epoch_size:
            raise ConfigError(
                f"{kind} gave {len(listed)} record keys, though its length is {self.epoch_size}"
            )
        keys = _checked(np.array(listed, dtype=np.int64), self)
        # The k-th visit to a record has draw key k * num_records + record_key.
        by_key = np.argsort(keys, kind="stable")
        ordered = keys[by_key]
        first = np.searchsorted(ordered, ordered, side="left")
        visit = np.empty_like(keys)
        visit[by_key] = np.arange(len(keys)) - first
        return keys, visit * self.num_records + keys

    @property
    def identity(self) -> dict[str, object]:
        """What is known of it: its kind, its length, and the seed of the transforms."""
        return {
            **_described(self, self._source),
            "epoch_size": self.epoch_size,
            "own_shards": self.own_shards,
        }


def _checked(keys: Int64, sampler: Sampler) -> Int64:
    outside = (keys < 0) | (keys >= sampler.num_records)
    if outside.any():
        raise ConfigError(
            f"the sampler gave record key {keys[outside][0]}; the manifest has the rows 0 to "
            f"{sampler.num_records - 1}"
        )
    return keys


def _seed_of(source: object) -> int:
    seed = getattr(source, "seed", getattr(source, "_seed", None))
    return seed if isinstance(seed, int) else 0


def _kind(source: object) -> str:
    return f"{type(source).__module__}.{type(source).__qualname__}"


def _described(sampler: Sampler, source: object) -> dict[str, object]:
    # How many epochs there are is no part of an order's identity: more may follow.
    text = re.sub(r",? ?num_epochs=\w+", "", repr(source))
    # A text with an address in it, Python's own, differs from process to process.
    return {
        "kind": type(sampler).__name__,
        "source": _kind(source) if " at 0x" in text or len(text) > 300 else text,
        "num_records": sampler.num_records,
        "seed": sampler.seed,
    }
