"""The schedule: maps a step to the positions that this shard reads, and a position to its step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, StateError
from gpufeed.order.shard import ShardOptions

__all__ = ["MAX_EPOCHS", "LastBatch", "Schedule"]

MAX_EPOCHS = 1 << 32
"""An epoch's number is 32 bits of the address of a random number."""

LastBatch = Literal["drop", "pad", "partial"]


@dataclass
class Schedule:
    """Divides the global order into batches.

    Batches never cross the end of an epoch. Within an epoch, global batch i has the positions
    [i * n * B, (i + 1) * n * B), of which shard r of n takes the B positions starting at r * B.

    Attributes:
        epoch_size: number of positions in an epoch.
        num_epochs: number of epochs; None for no end.
        batch_size: B, number of records per batch and shard.
        shard: this shard.
        last_batch: what to do with the end of an epoch that does not fill a global batch: "drop"
            leaves it out; "pad" repeats the epoch's last record, marked as not valid; "partial"
            returns the remaining records, which may be none for the later shards.
    """

    epoch_size: int
    num_epochs: int | None
    batch_size: int
    shard: ShardOptions
    last_batch: LastBatch

    def __post_init__(self) -> None:
        size = self.batch_size
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ConfigError(f"batch_size is {short(size)}; it must be an integer of 1 or more")
        if self.last_batch not in get_args(LastBatch):
            raise ConfigError(
                f'last_batch is {short(self.last_batch)}; it must be "drop", "pad" or "partial"'
            )
        shards = self.shard.shard_count
        if self.steps_per_epoch == 0:
            raise ConfigError(
                f"an epoch of {self.epoch_size} records has no full batch of {self.batch_size} x "
                f'{shards} shard(s); use a smaller batch_size, or last_batch="pad" or "partial"'
            )
        before = (shards - 1) * self.batch_size
        # Raised on all shards, since those with records would wait for the others in a collective.
        if self.last_batch == "partial" and before >= self.epoch_size:
            raise ConfigError(
                f"shard {shards - 1} of {shards} would never get a record: the shards before it "
                f"take all {self.epoch_size} records of an epoch; use a smaller batch_size, or "
                'last_batch="pad"'
            )

    def change_shard(self, shard: ShardOptions) -> None:
        """Change to another shard, for all who share this schedule.

        Raises:
            ConfigError: as when a schedule is made; nothing has changed then.
        """
        self.shard = replace(self, shard=shard).shard

    @property
    def global_batch(self) -> int:
        """Number of records that all shards together read per step."""
        return self.batch_size * self.shard.shard_count

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps per epoch, the same for all shards."""
        whole, left = divmod(self.epoch_size, self.global_batch)
        return whole if self.last_batch == "drop" else whole + (left > 0)

    @property
    def records_per_epoch(self) -> int:
        """Number of records that all shards together deliver per epoch, without padding."""
        if self.last_batch == "drop":
            return self.steps_per_epoch * self.global_batch
        return self.epoch_size

    @property
    def num_steps(self) -> int | None:
        """Total number of batches; None for no end."""
        return None if self.num_epochs is None else self.num_epochs * self.steps_per_epoch

    def positions(self, step: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return the positions of batch `step`, and which of them are valid, not padding.

        Returns:
            int64 (b,) and bool (b,); b is `batch_size`, but may be less, even 0, at the end of an
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
        """Yield the steps from `step` on in which this shard has a record."""
        while self.num_steps is None or step < self.num_steps:
            if len(self.positions(step)[0]):
                yield step
            step += 1

    def records_before(self, step: int) -> int:
        """Return the position of the global order at which step `step` starts."""
        epoch, place = divmod(step, self.steps_per_epoch)
        return epoch * self.epoch_size + place * self.global_batch

    def step_at(self, records: int) -> int:
        """Return the step that starts at position `records` of the global order.

        Raises:
            StateError: no batch starts there.
        """
        epoch, within = divmod(records, self.epoch_size)
        place, rest = divmod(within, self.global_batch)
        if rest:
            raise StateError(
                f"no batch starts after {records} records: {within} records of this epoch are not "
                f"a multiple of the global batch, {self.batch_size} x {self.shard.shard_count} "
                "shard(s); restore with the global batch of the run that saved the state, or edit "
                "'records'"
            )
        return epoch * self.steps_per_epoch + min(place, self.steps_per_epoch)
