"""Puts a batch together from its plan and its images, as arrays of the framework."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError

if TYPE_CHECKING:
    from gpufeed._util.spans import Spans
    from gpufeed.adapters import Adapter
    from gpufeed.feed.canary import Canary
    from gpufeed.feed.columns import Columns
    from gpufeed.feed.stats import Clock
    from gpufeed.ledger import Ledger
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.plan.targets import Targets

__all__ = ["Batch", "HandOver"]

if TYPE_CHECKING:
    Batch = dict[str, Any]
else:

    class _Type(GenericAlias):
        """The type of a batch, for annotations; Grain has an operation of this name."""

        def __call__(self, *_: object, **__: object) -> NoReturn:
            raise ConfigError(
                "gpufeed.Batch is the type of a batch, a dict, and makes none: pass batch_size to "
                "Loader, which makes the batches"
            )

    Batch = _Type(dict, (str, Any))


class HandOver:
    """Makes batches of the framework's arrays; see `Loader` for their keys.

    Args:
        adapter: converts arrays to the framework.
        targets: makes the arrays of boxes, points and fields.
        columns: looks up the columns that come with batches.
        ledger: records the batches handed out by iterating; None for no record.
        marks_valid: whether batches have the key `valid`.
        spans: notes when batches were handed over.
        pairs: the keys of records' other images.
        canary: compares images of the batches handed out by iterating; None for no comparison.
    """

    def __init__(
        self,
        adapter: Adapter,
        targets: Targets,
        columns: Columns,
        ledger: Ledger | None,
        *,
        marks_valid: bool,
        spans: Spans,
        pairs: Sequence[str] = (),
        canary: Canary | None = None,
    ) -> None:
        self.canary = canary
        self._adapter = adapter
        self._targets = targets
        self._columns = columns
        self._ledger = ledger
        self._marks_valid = marks_valid
        self._spans = spans
        self._images = ("image", *pairs)

    def deliver(self, plan: BatchPlan, views: Sequence[Any], clock: Clock) -> Any:
        """Return a batch for iterating, and count it; see `batch` for the arguments."""
        with self._spans("hand_over", plan.step):
            batch = self.batch(plan, views)
            if self.canary is not None:
                self.canary.look(plan, batch)
            handed_out = self.collate(batch)
        delivered = plan.delivered
        clock.handed_out(plan.step, int(delivered.sum()))
        self._adapter.pace()  # after the clock: this waits for the consumer's own work
        if self._ledger is not None:
            pixels = self.rows(batch, delivered) if self._ledger.run.pixels else None
            # The order is recorded, and not the substitutes.
            places, keys = plan.places[delivered], plan.visits.record_key[delivered]
            self._ledger.add(plan.epochs[delivered], places, keys, pixels)
        return handed_out

    def batch(self, plan: BatchPlan, views: Sequence[Any]) -> Batch:
        """Return a batch.

        Args:
            plan: the batch's plan.
            views: for each view, DALI's dense tensor of its images.
        """
        adapter = self._adapter
        of_views = []
        for tensor, view in zip(views, plan.stages.views, strict=True):
            images = adapter.images(tensor, len(self._images))
            if view.output.dtype == "bfloat16":
                images = [adapter.to_bfloat16(each) for each in images]
            of_views.append(images)
        batch: Batch = {
            name: images[0] if len(images) == 1 else list(images)
            for name, images in zip(self._images, zip(*of_views, strict=True), strict=True)
        }
        if plan.labels is not None:
            batch["label"] = adapter.arrays(plan.labels)
        batch["record_key"] = adapter.numbers(plan.record_keys)
        batch["epoch"] = adapter.numbers(plan.epochs)
        if self._marks_valid:
            batch["valid"] = adapter.arrays(plan.valid)
        if plan.mix is not None:
            if plan.label_b is not None:
                batch["label_b"] = adapter.arrays(plan.label_b)
            batch["lam"] = adapter.arrays(plan.mix.share)
        if plan.soft_labels is not None:
            batch["soft_label"] = adapter.arrays(plan.soft_labels)
        batch |= self._columns.of(plan.record_keys, adapter)
        return batch | self._targets.arrays(plan, adapter)

    def collate(self, batch: Batch) -> Any:
        """Return a batch after `collate_fn`."""
        collate = self._targets.collate_fn
        if collate is None:
            return batch
        return collate([self.record(batch, place) for place in range(len(batch["record_key"]))])

    def record(self, batch: Batch, place: int) -> Batch:
        """Return one record of a batch: its values without the first dimension."""
        several: Collection[str] = ()
        if isinstance(batch["image"], list):
            several = (*self._images, *self._targets.moving)
        return {
            name: [view[place] for view in values] if name in several else values[place]
            for name, values in batch.items()
        }

    def rows(self, batch: Batch, which: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        """Return the pixels of k records in host memory, (k, ...), with views concatenated.

        Args:
            batch: a batch as returned by `batch`.
            which: bool (n,), the records to take.
        """
        images = batch["image"]
        if not isinstance(images, list):
            return self._adapter.to_numpy(images)[which]
        views = [self._adapter.to_numpy(view)[which] for view in images]
        rows = [np.ascontiguousarray(view).reshape(len(view), -1).view(np.uint8) for view in views]
        return np.concatenate(rows, axis=1)
