"""From a step's number to the positions this shard reads, and back from a position to its step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError, StateError
from gpufeed.order.shard import ShardOptions

__all__ = ["MAX_EPOCHS", "LastBatch", "Schedule"]

MAX_EPOCHS = 1 << 32
"""An epoch's number has 32 bits of a random number's address."""

LastBatch = Literal["drop", "pad", "partial"]


@dataclass(frozen=True)
class Schedule:
    """How the global order is cut into batches.

    Batches never cross an epoch's end. Within an epoch, global batch i holds the positions
    [i * n * B, (i + 1) * n * B), of which shard r of n takes the B from r * B on.

    Attributes:
        epoch_size: positions in an epoch.
        num_epochs: None for no end.
        batch_size: B, records of one batch of one shard.
        shard: which shard this is.
        last_batch: what becomes of an epoch's tail that fills no global batch: "drop" leaves it
            out; "pad" fills it up by repeating the epoch's last record, marked as not valid;
            "partial" hands out what is left, which may be nothing for the later shards.
    """

    epoch_size: int
    num_epochs: int | None
    batch_size: int
    shard: ShardOptions
    last_batch: LastBatch

    def __post_init__(self) -> None:
        size = self.batch_size
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ConfigError(f"batch_size is {size!r}; it must be an integer of 1 or more")
        if self.last_batch not in get_args(LastBatch):
            raise ConfigError(
                f'last_batch is {self.last_batch!r}; it must be "drop", "pad" or "partial"'
            )
        shards = self.shard.shard_count
        if self.steps_per_epoch == 0:
            raise ConfigError(
                f"an epoch of {self.epoch_size} records has no whole batch of "
                f"{self.batch_size} x {shards} shard(s); take a smaller batch_size, "
                'or last_batch="pad" or "partial"'
            )
        before = (shards - 1) * self.batch_size
        # On all shards, or those that have records would wait for the others in a collective.
        if self.last_batch == "partial" and before >= self.epoch_size:
            raise ConfigError(
                f"shard {shards - 1} of {shards} would never get a record: the shards before it "
                f"take all {self.epoch_size} of an epoch; take a smaller batch_size, or "
                'last_batch="pad"'
            )

    @property
    def global_batch(self) -> int:
        """Records that all shards together take in one step."""
        return self.batch_size * self.shard.shard_count

    @property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch, the same for all shards."""
        whole, left = divmod(self.epoch_size, self.global_batch)
        return whole if self.last_batch == "drop" else whole + (left > 0)

    @property
    def records_per_epoch(self) -> int:
        """Records that all shards together are handed in an epoch, padding not counted."""
        if self.last_batch == "drop":
            return self.steps_per_epoch * self.global_batch
        return self.epoch_size

    @property
    def num_steps(self) -> int | None:
        """How many batches there are in all; None for no end."""
        return None if self.num_epochs is None else self.num_epochs * self.steps_per_epoch

    def positions(self, step: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return the positions of batch `step` and which of them are no padding.

        Returns:
            int64 (b,) and bool (b,); b is `batch_size`, or less, even 0, for a "partial" tail.

        Raises:
            IndexError: no such step.
        """
        if step < 0 or (self.num_steps is not None and step >= self.num_steps):
            raise IndexError(
                f"there is no batch {step}: the last is {self.num_steps - 1}"
                if self.num_steps is not None
                else f"there is no batch {step}"
            )
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch >= MAX_EPOCHS:
            raise IndexError(f"there is no batch {step}: epochs end at number {MAX_EPOCHS - 1}")
        start = place * self.global_batch + self.shard.shard_index * self.batch_size
        within = np.arange(start, start + self.batch_size, dtype=np.int64)
        valid = within < self.epoch_size
        if self.last_batch == "partial":
            within, valid = within[valid], valid[valid]
        else:
            within = np.minimum(within, self.epoch_size - 1)
        return epoch * self.epoch_size + within, valid

    def steps_from(self, step: int) -> Iterator[int]:
        """Yield the steps from `step` on in which this shard gets a record."""
        while self.num_steps is None or step < self.num_steps:
            if len(self.positions(step)[0]):
                yield step
            step += 1

    def records_before(self, step: int) -> int:
        """Return the position of the global order where step `step` starts."""
        epoch, place = divmod(step, self.steps_per_epoch)
        return epoch * self.epoch_size + place * self.global_batch

    def step_at(self, records: int) -> int:
        """Return the step that starts at position `records` of the global order.

        Raises:
            StateError: no batch of this size starts there.
        """
        epoch, within = divmod(records, self.epoch_size)
        place, off = divmod(within, self.global_batch)
        if off:
            raise StateError(
                f"no batch starts after {records} records: {within} of this epoch are no multiple "
                f"of the global batch, {self.batch_size} x {self.shard.shard_count} shard(s); "
                "restore with the global batch of the run that saved it, or edit 'records'"
            )
        return epoch * self.steps_per_epoch + min(place, self.steps_per_epoch)
