"""The schedule: maps a step to the positions that this shard reads, and a position to its step."""

from __future__ import annotations

import bisect
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from gpufeed._util.numbers import is_integer
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, StateError
from gpufeed.order.shard import ShardOptions

__all__ = ["MAX_EPOCHS", "BatchSize", "LastBatch", "Schedule", "check_sizes"]

MAX_EPOCHS = 1 << 32
"""An epoch's number is 32 bits of the address of a random number."""

_log = logging.getLogger("gpufeed")

BatchSize = int | Mapping[int, int]
LastBatch = Literal["drop", "pad", "partial"]


class _Segment(NamedTuple):
    """The steps from `first` on that have one batch size.

    Attributes:
        epoch: epoch of step `first`.
        within: position in this epoch at which step `first` starts, over all shards.
        first: number of the step.
        size: records per batch and shard.
    """

    epoch: int
    within: int
    first: int
    size: int


@dataclass
class Schedule:
    """Divides the global order into batches.

    Batches never cross the end of an epoch. At one batch size B, global batch i of an epoch has the
    positions [i * n * B, (i + 1) * n * B), of which shard r of n takes the B positions starting at
    r * B.

    Attributes:
        epoch_size: number of positions in an epoch.
        num_epochs: number of epochs; None for no end.
        batch_size: B, number of records per batch and shard; or a mapping from a step to the size
            of the batches from there on, which must contain step 0.
        shard: this shard.
        last_batch: what to do with the end of an epoch that does not fill a global batch: "drop"
            leaves it out; "pad" repeats the epoch's last record, marked as not valid; "partial"
            returns the remaining records, which may be none for the later shards; None is "partial"
            if there is one shard, and otherwise "pad", so that all shards have equal batches.
    """

    epoch_size: int
    num_epochs: int | None
    batch_size: BatchSize
    shard: ShardOptions
    last_batch: LastBatch | None
    _segments: list[_Segment] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.last_batch not in (None, *get_args(LastBatch)):
            raise ConfigError(
                f'last_batch is {short(self.last_batch)}; it must be "drop", "pad" or "partial"'
            )
        sizes = check_sizes(self.batch_size)
        for size in sizes.values():
            self._check_size(size)
        self._segments = [_Segment(0, 0, 0, sizes.pop(0))]
        for first, size in sorted(sizes.items()):
            epoch, within, previous = self._locate(first - 1)
            within = min(within + previous * self.shard.shard_count, self.epoch_size)
            self._segments.append(_Segment(epoch, within, first, size))

    def _check_size(self, size: int) -> None:
        shards = self.shard.shard_count
        if not self._steps_in(self.epoch_size, size):
            raise ConfigError(
                f"an epoch of {self.epoch_size} records has no full batch of {size} x "
                f'{shards} shard(s); use a smaller batch_size, or last_batch="pad" or "partial"'
            )
        # Raised on all shards, since those with records would wait for the others in a collective.
        if self.ending == "partial" and (shards - 1) * size >= self.epoch_size:
            raise ConfigError(
                f"shard {shards - 1} of {shards} would never get a record: the shards before it "
                f"take all {self.epoch_size} records of an epoch; use a smaller batch_size, or "
                'last_batch="pad"'
            )

    def of_shard(self, shard: ShardOptions) -> Schedule:
        """Return the schedule of another shard.

        Raises:
            ConfigError: as when a schedule is made.
        """
        return replace(self, shard=shard)

    def become(self, other: Schedule) -> None:
        """Become a schedule of another shard, for all who share this one."""
        self.shard, self._segments = other.shard, other._segments

    @property
    def ending(self) -> LastBatch:
        """What becomes of the end of an epoch, for the current number of shards."""
        return self.last_batch or ("partial" if self.shard.shard_count == 1 else "pad")

    @property
    def sizes(self) -> dict[int, int]:
        """Map the first step of each batch size, per shard, to the size."""
        return {segment.first: segment.size for segment in self._segments}

    def _steps_in(self, positions: int, size: int) -> int:
        """Return the number of batches of a size in the last `positions` of an epoch."""
        whole, left = divmod(positions, size * self.shard.shard_count)
        return whole if self.ending == "drop" else whole + (left > 0)

    def _locate(self, step: int) -> tuple[int, int, int]:
        """Return a step's epoch, the position in it at which its global batch starts, its size."""
        segments = self._segments
        at = bisect.bisect_right(segments, step, key=lambda segment: segment.first) - 1
        epoch, within, first, size = segments[at]
        place, rest = step - first, self._steps_in(self.epoch_size - within, size)
        if place >= rest:
            epochs, place = divmod(place - rest, self._steps_in(self.epoch_size, size))
            epoch, within = epoch + 1 + epochs, 0
        return epoch, within + place * size * self.shard.shard_count, size

    def first_step(self, epoch: int) -> int:
        """Return the number of the first batch of an epoch."""
        at = bisect.bisect_right(self._segments, (epoch, 0), key=lambda each: each[:2]) - 1
        begun, within, first, size = self._segments[at]
        rest = self._steps_in(self.epoch_size - within, size)
        return first + rest + (epoch - begun - 1) * self._steps_in(self.epoch_size, size)

    def epoch_of(self, step: int) -> int:
        """Return the epoch of a batch."""
        return self._locate(step)[0]

    def steps_of(self, epoch: int) -> range:
        """Return the numbers of the batches of an epoch; there are as many for all shards."""
        return range(self.first_step(epoch), self.first_step(epoch + 1))

    def dropped(self, epoch: int) -> int:
        """Return the number of records at the end of an epoch that no shard gets."""
        if self.ending != "drop":
            return 0
        _, within, size = self._locate(self.first_step(epoch + 1) - 1)
        return self.epoch_size - within - size * self.shard.shard_count

    def warn_if_dropping(self, epoch: int) -> None:
        """Log a warning if more than a tenth of an epoch's records are dropped."""
        dropped = self.dropped(epoch)
        if 10 * dropped > self.epoch_size:
            _log.warning(
                "gpufeed: of the %d records of an epoch, %d are dropped, since they do not fill a "
                'batch of %d x %d shard(s); pass last_batch="partial" or "pad", or a smaller '
                "batch_size",
                self.epoch_size,
                dropped,
                self._locate(self.first_step(epoch))[2],
                self.shard.shard_count,
            )

    @property
    def num_steps(self) -> int | None:
        """Total number of batches; None for no end."""
        return None if self.num_epochs is None else self.first_step(self.num_epochs)

    @property
    def records_per_epoch(self) -> int:
        """Number of records that all shards together deliver per epoch, without padding.

        Raises:
            ConfigError: it differs between epochs.
        """
        if self.ending != "drop":
            return self.epoch_size
        if len(self._segments) > 1:
            raise ConfigError(
                f'batch_size is {self.batch_size} and last_batch is "drop", so epochs may end at '
                'different records; for a ledger use last_batch="pad" or "partial"'
            )
        return len(self.steps_of(0)) * self._segments[0].size * self.shard.shard_count

    def positions(self, step: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return the positions of batch `step`, and which of them are valid, not padding.

        Returns:
            int64 (b,) and bool (b,); b is the batch size, but may be less, even 0, at the end of an
            epoch with "partial".

        Raises:
            IndexError: there is no such step.
        """
        if step < 0 or (self.num_steps is not None and step >= self.num_steps):
            raise IndexError(
                f"there is no batch {step}: the last is {self.num_steps - 1}"
                if self.num_steps is not None
                else f"there is no batch {step}"
            )
        epoch, start, size = self._locate(step)
        if epoch >= MAX_EPOCHS:
            raise IndexError(f"there is no batch {step}: epochs end at number {MAX_EPOCHS - 1}")
        start += self.shard.shard_index * size
        within = np.arange(start, start + size, dtype=np.int64)
        valid = within < self.epoch_size
        if self.ending == "partial":
            within, valid = within[valid], valid[valid]
        else:
            within = np.minimum(within, self.epoch_size - 1)
        return epoch * self.epoch_size + within, valid

    def steps_from(self, step: int) -> Iterator[int]:
        """Yield the steps from `step` on in which this shard has a record."""
        while self.num_steps is None or step < self.num_steps:
            if len(self.positions(step)[0]):
                yield step
            step += 1

    def records_before(self, step: int) -> int:
        """Return the position of the global order at which step `step` starts."""
        epoch, within, _ = self._locate(step)
        return epoch * self.epoch_size + within

    def step_at(self, records: int) -> int:
        """Return the step that starts at position `records` of the global order.

        Raises:
            StateError: no batch starts there.
        """
        epoch, position = divmod(records, self.epoch_size)
        at = bisect.bisect_right(self._segments, (epoch, position), key=lambda each: each[:2]) - 1
        begun, within, first, size = self._segments[at]
        if begun < epoch:
            first, within = self.first_step(epoch), 0
        place, rest = divmod(position - within, size * self.shard.shard_count)
        if rest:
            raise StateError(
                f"no batch starts after {records} records: {position - within} records of this "
                f"epoch are not a multiple of the global batch, {size} x "
                f"{self.shard.shard_count} shard(s); restore with the global batch of the run that "
                "saved the state, or edit 'records'"
            )
        # A position in the end that "drop" leaves out is that of the next epoch.
        return min(first + place, self.first_step(epoch + 1))


def check_sizes(given: BatchSize) -> dict[int, int]:
    """Return the size of batches from each step on.

    Raises:
        ConfigError: `given` is neither a size nor a mapping of steps to sizes.
    """
    sizes = {0: given} if not isinstance(given, Mapping) else dict(given)
    if not all(is_integer(each) for each in (*sizes, *sizes.values())) or (
        isinstance(given, Mapping) and (0 not in sizes or min(sizes) < 0)
    ):
        raise ConfigError(
            f"batch_size is {short(given)}; it must be an integer, or map steps to integers, from "
            "step 0 on, such as {0: 64, 1000: 128}"
        )
    if min(sizes.values()) < 1:
        raise ConfigError(f"batch_size is {short(given)}; it must be an integer of 1 or more")
    return {int(step): int(size) for step, size in sizes.items()}
