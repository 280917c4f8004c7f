"""The base class of samplers, which define the record at each position of the global order.

A sampler does not depend on batches, shards or processes. Positions continue across epochs: epoch e
covers positions e * epoch_size to (e + 1) * epoch_size - 1.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpufeed import rng
from gpufeed._util.numbers import as_integer, is_integer
from gpufeed._util.sanitize import short
from gpufeed._util.written import write_call
from gpufeed.errors import ConfigError
from gpufeed.order.permutation import MAX_SIZE

__all__ = ["RecordMetadata", "Sampler", "Visits", "check_count", "is_fixed"]

Int64 = npt.NDArray[np.int64]


class Visits(NamedTuple):
    """The records at some positions, as int64 arrays of equal length.

    Attributes:
        epoch: epoch of each position.
        record_key: row of each record in the manifest.
        draw_key: key of each visit's random numbers within the epoch. It is the record_key if
            records occur once per epoch. If they repeat, it differs for each visit, so that visits
            to the same record draw different numbers.
    """

    epoch: Int64
    record_key: Int64
    draw_key: Int64


@dataclass(frozen=True)
class RecordMetadata:
    """One position of the global order.

    Attributes:
        index: the position.
        record_key: row of the record in the manifest; None after `remove_record_key`.
        epoch: epoch of the position.
    """

    index: int
    record_key: int | None
    epoch: int
    _seed: int = field(repr=False)
    _draw_key: int = field(repr=False)

    @property
    def rng(self) -> np.random.Generator:
        """A new generator for this visit to the record, always with the same random numbers.

        `Lambda(random=True)` gets the same one if it is the loader's first transform. Later
        functions have generators of their own.
        """
        visit = rng.BatchRng(self._seed, np.array([self.epoch]), np.array([self._draw_key]), 0)
        return rng.generator(visit.keys()[0])

    def remove_record_key(self) -> RecordMetadata:
        """Return it without its record key, as Grain's loader describes a batch."""
        return replace(self, record_key=None)


class Sampler(abc.ABC):
    """The global order of records; subclasses define the record at each position.

    Attributes:
        num_records: length of the manifest, 1 to 2**40.
        seed: seed of the order and of all random transforms, 0 to 2**64 - 1.
        num_epochs: number of epochs; None for no end.
        epoch_size: number of positions in an epoch.

    Raises:
        ConfigError: an argument is out of range; the message names it.
    """

    addressable = True
    """Whether any position is available at any time."""

    group = 1
    """Number of positions that belong together: the global batch should be a multiple of it."""

    own_shards = 1
    """Number of shards into which the sampler divides its order itself, returning one of them."""

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
        if num_epochs is not None:
            num_epochs = check_count("num_epochs", num_epochs, 2**32 - 1, "None for no end")
        self.num_epochs = num_epochs
        size = self.num_records if epoch_size is None else epoch_size
        self.epoch_size = check_count("epoch_size", size, MAX_SIZE)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; those of gpufeed's own samplers are set once."""
        if not name.startswith("_") and name in vars(self) and is_fixed(self):
            raise AttributeError(
                f"a {type(self).__name__} does not change: make a new one with another {name}, "
                "and a new Loader of it"
            )
        super().__setattr__(name, value)

    @abc.abstractmethod
    def visits(self, positions: Int64) -> Visits:
        """Return the records at `positions`, an int64 array (n,) of valid positions."""

    @property
    def has_repeats(self) -> bool:
        """Whether a record may occur more than once in an epoch."""
        return True

    def check_reachable(  # noqa: B027 - most samplers have nothing to check
        self, epoch: int, *, begun: bool = False
    ) -> None:
        """Raise `ConfigError` if the order of this epoch is not available now.

        Args:
            epoch: number of the epoch.
            begun: whether it must be the same order that another process has started.
        """

    @property
    @abc.abstractmethod
    def identity(self) -> dict[str, object]:
        """Everything that decides the order, as JSON values.

        `kind` is the class's name, and the rest are its arguments, with arrays packed. `num_epochs`
        is not included, so that a run can be extended.
        """

    def keys(self, start: int, stop: int) -> Int64:
        """Return the record keys at positions start to stop - 1, as int64 (stop - start,).

        Raises:
            IndexError: a position is negative or past the last epoch.
        """
        end = 1 << 63 if self.num_epochs is None else len(self)
        if start < 0 or stop > end:
            raise IndexError(f"positions {start} to {stop} are not all in the sampler's order")
        return self.visits(np.arange(start, stop, dtype=np.int64)).record_key

    def __len__(self) -> int:
        if self.num_epochs is None:
            # TypeError, which list() and others understand as an unknown length.
            raise TypeError("a sampler with num_epochs=None is endless and has no length")
        return self.epoch_size * self.num_epochs

    def __bool__(self) -> bool:
        """Return True, since `len` may be undefined."""
        return True

    def __getitem__(self, index: int) -> RecordMetadata:
        """Return the record at position `index`; raises IndexError outside the order."""
        end = 1 << 63 if self.num_epochs is None else len(self)
        index = as_integer(index)
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
        arguments: dict[str, Any] = {**self.identity, "num_epochs": self.num_epochs}
        del arguments["kind"]
        # `write_call` abbreviates arrays.
        return write_call(
            type(self),
            {name: np.array(v) if isinstance(v, list) else v for name, v in arguments.items()},
        )


def is_fixed(sampler: Sampler) -> bool:
    """Return whether a sampler is one of gpufeed's own, whose order does not change."""
    return type(sampler).__module__.startswith("gpufeed.")


def check_count(name: str, value: object, maximum: int, alternative: str = "") -> int:
    """Return `value` if it is an integer from 1 to `maximum`.

    Args:
        name: name of the argument, for the message.
        value: value of the argument.
        maximum: largest valid value.
        alternative: other valid values, for the message.

    Raises:
        ConfigError: the value is out of range; the message names the argument.
    """
    if not is_integer(value) or not 1 <= value <= maximum:
        wanted = "1 or more" if maximum >= MAX_SIZE or alternative else f"1 to {maximum}"
        choice = f", or {alternative}" if alternative else ""
        raise ConfigError(f"{name} is {short(value)}; it must be an integer of {wanted}{choice}")
    return int(value)
