"""Boxes and points of a batch's records, which follow the images through their frames."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpufeed.transforms.frame import Frame

if TYPE_CHECKING:
    from gpufeed.records import Manifest

__all__ = ["Objects"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Objects:
    """Any number of boxes for each of n records, m in all, those of a record side by side.

    Attributes:
        boxes: float64 (m, 4) of (x0, y0, x1, y1) in pixels.
        offsets: int64 (n + 1), record i's boxes being those from `offsets[i]` to `offsets[i + 1]`.
        labels: int32 (m,).
    """

    boxes: Float64
    offsets: Int64
    labels: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @staticmethod
    def of(manifest: Manifest) -> Objects | None:
        """The boxes of all records of a manifest; None where it has none."""
        found = manifest.objects()
        if found is None:
            return None
        boxes, labels, offsets = found
        return Objects(boxes, offsets, labels)

    @property
    def counts(self) -> Int64:
        """How many boxes each record has, int64 (n,)."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> Int64:
        """Which record each box is of, int64 (m,)."""
        return np.repeat(np.arange(len(self)), self.counts)

    @property
    def has_area(self) -> Bool:
        """Whether there is anything in each box, bool (m,)."""
        return np.asarray((self.boxes[:, 2:] > self.boxes[:, :2]).all(axis=1))

    def take(self, keys: Int64) -> Objects:
        """Return the objects of some records, in their order, repeats included."""
        counts = self.counts[keys]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        chosen = np.arange(offsets[-1]) + np.repeat(self.offsets[keys] - offsets[:-1], counts)
        return Objects(self.boxes[chosen], offsets, self.labels[chosen])

    def tiled(self, copies: int) -> Objects:
        """Return all of them several times over."""
        starts = np.arange(copies) * self.offsets[-1]
        offsets = np.append(np.add.outer(starts, self.offsets[:-1]), copies * self.offsets[-1])
        return Objects(np.tile(self.boxes, (copies, 1)), offsets, np.tile(self.labels, copies))

    def chosen(self, mask: Bool) -> Objects:
        """Return those for which `mask`, bool (m,), says so; records may be left without any."""
        before = np.concatenate([[0], np.cumsum(mask)])
        return Objects(self.boxes[mask], before[self.offsets], self.labels[mask])

    def followed(self, frame: Frame) -> Objects:
        """Return them as they lie on the frame's canvas, cut to what is left of the image."""
        return replace(self, boxes=frame.take(self.rows).map_boxes(self.boxes))

    def padded(self) -> tuple[Float64, Bool]:
        """Return boxes (n, k, 4), k being the most of a record, and which there are, (n, k)."""
        counts = self.counts
        present = np.arange(counts.max(initial=0)) < counts[:, None]
        boxes = np.zeros((*present.shape, 4))
        boxes[present] = self.boxes
        return boxes, present
