"""What Lightning looks for in a loader: where to announce an epoch, and the batch size."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gpufeed.feed.cursor import Cursor

__all__ = ["BatchSampler", "TrainerEpochs"]


class TrainerEpochs:
    """Moves a loader to the epochs that a trainer announces, each before it is iterated.

    Epochs announced one after the other only move the loader forward. It is in a later epoch
    already where the trainer iterates a short loader several times in one of its own epochs. An
    epoch announced out of turn, as for another run or another validation, begins with its first
    batch. A position that was sought or loaded is kept if it does not lie before the epoch.

    Args:
        cursor: the loader's position.
        restart: whether each iteration is the same epoch, so that there is none to move to.
    """

    def __init__(self, cursor: Cursor, *, restart: bool) -> None:
        self._cursor = cursor
        self._restart = restart
        self._last: int | None = None

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch of the trainer."""
        if self._restart:
            return
        cursor = self._cursor
        goes_on = cursor.placed or self._last == epoch - 1
        if cursor.epoch < epoch or not goes_on:
            cursor.seek(cursor.steps_of(epoch).start)
            cursor.placed = False
        self._last = epoch


class BatchSampler(NamedTuple):
    """A loader's `batch_sampler`, as far as Lightning uses that of a torch DataLoader.

    Attributes:
        batch_size: records in one batch of this shard.
        sampler: where epochs are announced.
    """

    batch_size: int
    sampler: TrainerEpochs
