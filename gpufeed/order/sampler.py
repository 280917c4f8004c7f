"""Samplers: which record comes at which position of the global order.

A sampler knows nothing of batches, shards or processes. Positions count on through the epochs:
epoch e covers positions e * epoch_size to (e + 1) * epoch_size - 1.
"""

from __future__ import annotations

import abc
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpufeed import rng
from gpufeed._util.identity import brief
from gpufeed._util.numbers import is_integer
from gpufeed.errors import ConfigError
from gpufeed.order.permutation import MAX_SIZE

__all__ = ["RecordMetadata", "Sampler", "Visits", "check_count"]

Int64 = npt.NDArray[np.int64]


class Visits(NamedTuple):
    """Which records come at some positions, as int64 arrays of one length.

    Attributes:
        epoch: the epoch each position lies in.
        record_key: the record's row in the manifest.
        draw_key: what its random numbers are keyed by, within the epoch. The record_key where a
            record comes once an epoch; another number for each visit where records repeat, so that
            two visits to one record draw different numbers.
    """

    epoch: Int64
    record_key: Int64
    draw_key: Int64


@dataclass(frozen=True)
class RecordMetadata:
    """One position of the global order.

    Attributes:
        index: the position.
        record_key: the record's row in the manifest.
        epoch: the epoch the position lies in.
    """

    index: int
    record_key: int
    epoch: int
    _seed: int = field(repr=False)
    _draw_key: int = field(repr=False)

    @property
    def rng(self) -> np.random.Generator:
        """A new generator of this record's own in this epoch, the same each time it is made."""
        return rng.record_generator(self._seed, self.epoch, self._draw_key)


class Sampler(abc.ABC):
    """The global order of records; subclasses say which record each position holds.

    Attributes:
        num_records: length of the manifest it is for, 1 to 2**40.
        seed: of the order and of every random transform, 0 to 2**64 - 1.
        num_epochs: how many epochs there are; None for no end.
        epoch_size: how many positions make an epoch.

    Raises:
        ConfigError: naming the argument that is out of range.
    """

    addressable = True
    """Whether any position can be asked for at any time."""

    group = 1
    """Positions that belong together: a global batch is to be a multiple of this."""

    own_shards = 1
    """Into how many shards it cuts its order itself, giving one of them."""

    def __init__(
        self,
        num_records: int,
        *,
        seed: int = 0,
        num_epochs: int | None = None,
        epoch_size: int | None = None,
    ) -> None:
        self.num_records = check_count("num_records", num_records, MAX_SIZE)
        self.seed = rng.check_seed(seed)
        self.num_epochs = None
        if num_epochs is not None:
            self.num_epochs = check_count("num_epochs", num_epochs, 2**32 - 1, "None for no end")
        self.epoch_size = self.num_records
        if epoch_size is not None:
            self.epoch_size = check_count("epoch_size", epoch_size, MAX_SIZE)

    @abc.abstractmethod
    def visits(self, positions: Int64) -> Visits:
        """Return which records come at `positions`, an int64 array (n,) of valid positions."""

    @property
    def has_repeats(self) -> bool:
        """Whether a record may come more than once in an epoch."""
        return True

    def check_reachable(  # noqa: B027 - nothing to check is no lack
        self, epoch: int, *, begun: bool = False
    ) -> None:
        """Raise `ConfigError` if the order of this epoch cannot be had now.

        Args:
            epoch: its number.
            begun: whether it must be the order that another process has begun.
        """

    @property
    @abc.abstractmethod
    def identity(self) -> dict[str, object]:
        """Everything that decides the order, as JSON values.

        `kind` is the class's name, the rest are its arguments. `num_epochs` is no part of it: more
        may follow. Arrays are packed.
        """

    def keys(self, start: int, stop: int) -> Int64:
        """Return the record keys at positions start to stop - 1, as int64 (stop - start,).

        Raises:
            IndexError: a position before 0 or past the last epoch.
        """
        end = 1 << 63 if self.num_epochs is None else len(self)
        if start < 0 or stop > end:
            raise IndexError(f"positions {start} to {stop} are not all in the sampler's order")
        return self.visits(np.arange(start, stop, dtype=np.int64)).record_key

    def __len__(self) -> int:
        if self.num_epochs is None:
            # TypeError, so that list() and others take it as "length not known".
            raise TypeError("a sampler with num_epochs=None has no end, and so no length")
        return self.epoch_size * self.num_epochs

    def __bool__(self) -> bool:
        """True, though `len` may be undefined."""
        return True

    def __getitem__(self, index: int) -> RecordMetadata:
        """Return what comes at position `index`; IndexError outside the order."""
        end = 1 << 63 if self.num_epochs is None else len(self)
        index = operator.index(index)
        if not 0 <= index < end:
            raise IndexError(f"position {index} is not in the sampler's order")
        visit = self.visits(np.array([index], dtype=np.int64))
        return RecordMetadata(
            index=int(index),
            record_key=int(visit.record_key[0]),
            epoch=int(visit.epoch[0]),
            _seed=self.seed,
            _draw_key=int(visit.draw_key[0]),
        )

    def __iter__(self) -> Iterator[RecordMetadata]:
        index = 0
        while self.num_epochs is None or index < len(self):
            yield self[index]
            index += 1

    def __repr__(self) -> str:
        shown = {**brief(self.identity), "num_epochs": self.num_epochs}
        kind = shown.pop("kind")
        return f"{kind}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def check_count(name: str, value: object, most: int, otherwise: str = "") -> int:
    """Return `value` if it is an integer from 1 to `most`.

    Raises:
        ConfigError: naming it, and what could be given instead.
    """
    if not is_integer(value) or not 1 <= value <= most:
        wanted = "1 or more" if most >= MAX_SIZE or otherwise else f"1 to {most}"
        choice = f", or {otherwise}" if otherwise else ""
        raise ConfigError(f"{name} is {value!r}; it must be an integer of {wanted}{choice}")
    return int(value)
