"""Further images of the records of a batch, made on threads of the host: see `ImageTarget`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import DecodeError
from gpufeed.plan.image_targets import ImageTarget
from gpufeed.source.base import Content, Source

if TYPE_CHECKING:
    from gpufeed.plan.planner import BatchPlan

__all__ = ["Further", "OpenedFurther"]


@dataclass(frozen=True)
class Further:
    """The further images that a loader feeds.

    Attributes:
        targets: what they are.
        sources: for each target its images; key i is that of record i.
    """

    targets: Sequence[ImageTarget] = ()
    sources: Sequence[Source] = ()

    def bad(self, number: int, record_key: int, reason: str) -> DecodeError:
        """Return the error for the image of target `number` of a record."""
        target, path = self.targets[number], self.sources[number].name(record_key)
        return DecodeError(record_key, path, f"{target.name}: {reason}")


class OpenedFurther:
    """The further images of one batch, of all its views.

    Attributes:
        arrays: by name, an array (n, height, width) for each view.
    """

    def __init__(self, further: Further, plan: BatchPlan) -> None:
        self._further = further
        self._lookups = plan.lookups
        self.arrays: dict[str, list[npt.NDArray[Any]]] = {
            target.name: [target.empty(len(plan), lookup.size) for lookup in plan.lookups]
            for target in further.targets
        }
        for target in further.targets:
            for array in self.arrays[target.name]:
                array[plan.blank] = target.fill

    def reuse(
        self, before: Mapping[str, Sequence[npt.NDArray[Any]]], places: Collection[int]
    ) -> None:
        """Copy the images at some places of the batch."""
        for name, arrays in self.arrays.items():
            rows = np.array([place for place in places if place < len(arrays[0])], np.intp)
            for ours, theirs in zip(arrays, before[name], strict=True):
                ours[rows] = theirs[rows]

    def open(
        self, place: int, contents: Sequence[Content], size: tuple[int, int], record_key: int
    ) -> None:
        """Decode the images of one record, and write them for all views.

        Args:
            place: the record's place in the batch.
            contents: for each target the encoded image; none for a blank record.
            size: (height, width) of the record's image.
            record_key: the record.

        Raises:
            DecodeError: an image cannot be decoded.
        """
        for number, content in enumerate(contents):
            target = self._further.targets[number]
            try:
                values = target.decode(content, size)
            except ValueError as error:
                raise self._further.bad(number, record_key, str(error)) from None
            for lookup, out in zip(self._lookups, self.arrays[target.name], strict=True):
                target.write(lookup, place, values, out[place])
