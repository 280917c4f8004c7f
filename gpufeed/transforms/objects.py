"""Boxes of several records, which follow the images through their frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

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
    """Any number of boxes for each of n records, m in total, in the order of the records.

    Attributes:
        boxes: float64 (m, 4) of (x0, y0, x1, y1) in pixels.
        offsets: int64 (n + 1,); record i has the boxes `offsets[i]` to `offsets[i + 1]`, exclusive.
        labels: int32 (m,).
        others: other arrays (m, ...) by name, with a row for each box.
    """

    boxes: Float64
    offsets: Int64
    labels: npt.NDArray[np.int32]
    others: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @staticmethod
    def of(
        manifest: Manifest,
        keys: Int64,
        others: Mapping[str, Callable[[Int64], npt.NDArray[Any]]] = MappingProxyType({}),
    ) -> Objects | None:
        """Return the boxes of some records of a manifest; None if it has none.

        `others` returns the rows of other arrays, given the records.
        """
        arrays = manifest.objects(keys)
        if arrays is None:
            return None
        boxes, labels, offsets = arrays
        return Objects(boxes, offsets, labels, {name: of(keys) for name, of in others.items()})

    @property
    def counts(self) -> Int64:
        """Number of boxes of each record, int64 (n,)."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> Int64:
        """Record of each box, int64 (m,), from 0 to n - 1."""
        return np.repeat(np.arange(len(self)), self.counts)

    @property
    def has_area(self) -> Bool:
        """Whether each box has an area above 0, bool (m,)."""
        return np.asarray((self.boxes[:, 2:] > self.boxes[:, :2]).all(axis=1))

    def take(self, keys: Int64) -> Objects:
        """Return the boxes of some records, in the given order; records may repeat."""
        counts = self.counts[keys]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[keys] - offsets[:-1], counts)
        return self._rows(rows, offsets)

    def tiled(self, copies: int) -> Objects:
        """Return all records `copies` times, one copy after the other."""
        starts = np.arange(copies) * self.offsets[-1]
        offsets = np.append(np.add.outer(starts, self.offsets[:-1]), copies * self.offsets[-1])
        return self._rows(np.tile(np.arange(self.offsets[-1]), copies), offsets)

    def chosen(self, mask: Bool) -> Objects:
        """Return the boxes where `mask`, bool (m,), is True; the number of records stays n."""
        before = np.concatenate([[0], np.cumsum(mask)])
        return self._rows(np.flatnonzero(mask), before[self.offsets])

    def _rows(self, rows: Int64, offsets: Int64) -> Objects:
        others = {name: values[rows] for name, values in self.others.items()}
        return Objects(self.boxes[rows], offsets, self.labels[rows], others)

    def followed(self, frame: Frame) -> Objects:
        """Return the boxes on the frame's canvas, clipped to what is left of the image."""
        return replace(self, boxes=frame.take(self.rows).map_boxes(self.boxes))

    def padded(self) -> tuple[Float64, Bool]:
        """Return boxes (n, k, 4), k being the largest count of a record, and a mask (n, k)."""
        counts = self.counts
        present = np.arange(counts.max(initial=0)) < counts[:, None]
        boxes = np.zeros((*present.shape, 4))
        boxes[present] = self.boxes
        return boxes, present
