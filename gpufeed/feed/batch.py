"""What is handed out: a plan and its images, as arrays of the framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gpufeed.adapters import Adapter
    from gpufeed.feed.stats import Clock
    from gpufeed.ledger import Ledger
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.plan.targets import Targets

__all__ = ["Batch", "HandOver"]

Batch = dict[str, Any]


class HandOver:
    """Makes batches of the framework's arrays; see `Loader` for what they hold.

    Args:
        adapter: into the framework.
        targets: what comes with the images.
        ledger: where what iterating hands out is noted; None for nowhere.
        marks_valid: whether there may be records that are not `valid`.
    """

    def __init__(
        self, adapter: Adapter, targets: Targets, ledger: Ledger | None, *, marks_valid: bool
    ) -> None:
        self._adapter = adapter
        self._targets = targets
        self._ledger = ledger
        self._marks_valid = marks_valid

    def deliver(self, plan: BatchPlan, views: Sequence[Any], clock: Clock) -> Any:
        """Return what iterating hands out, and count it; for the arguments see `batch`."""
        batch = self.batch(plan, views)
        handed_out = self.collated(batch)
        delivered = plan.delivered
        clock.handed_out(int(delivered.sum()))
        if self._ledger is not None:
            pixels = self.rows(batch, delivered) if self._ledger.run.pixels else None
            # Places of the order are counted, whatever came at them.
            places, keys = plan.places[delivered], plan.ordered_keys[delivered]
            self._ledger.add(plan.epochs[delivered], places, keys, pixels)
        return handed_out

    def batch(self, plan: BatchPlan, views: Sequence[Any]) -> Batch:
        """Return a batch.

        Args:
            plan: of the batch.
            views: for each view DALI's dense tensor of its images.
        """
        adapter = self._adapter
        images = [adapter.images(view) for view in views]
        batch = {
            "image": images[0] if len(images) == 1 else images,
            "label": adapter.labels(plan.labels),
            "record_key": adapter.numbers(plan.record_keys),
            "epoch": adapter.numbers(plan.epochs),
        }
        if self._marks_valid:
            batch["valid"] = adapter.arrays(plan.valid)
        if plan.mix is not None:
            batch["label_b"] = adapter.labels(plan.labels[plan.mix.partner])
            batch["lam"] = adapter.arrays(plan.mix.share)
        if plan.soft_labels is not None:
            batch["soft_label"] = adapter.arrays(plan.soft_labels)
        return batch | self._targets.made(plan, adapter)

    def collated(self, batch: Batch) -> Any:
        """Return a batch as `collate_fn` has it."""
        images = batch["image"]
        views = len(images) if isinstance(images, list) else 1
        return self._targets.collated(batch, len(batch["record_key"]), views)

    def rows(self, batch: Batch, which: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        """Return the pixels of some records, (k, ...), in host memory; of views side by side.

        Args:
            batch: from `batch`.
            which: bool (n,), of which records.
        """
        images = batch["image"]
        if not isinstance(images, list):
            return self._adapter.to_numpy(images)[which]
        views = [self._adapter.to_numpy(view)[which] for view in images]
        rows = [np.ascontiguousarray(view).reshape(len(view), -1).view(np.uint8) for view in views]
        return np.concatenate(rows, axis=1)
