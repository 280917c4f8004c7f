"""Compose one list of transforms to stages, for a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.plan.resample import resample
from gpufeed.plan.stages import Late, Mixing, Pixel, Resample, Stage, View, Warp, Window, map_arrays
from gpufeed.rng import BatchRng
from gpufeed.transforms.base import (
    GeometricTransform,
    LateTransform,
    MixTransform,
    OutputFormat,
    PixelTransform,
    Records,
    Transform,
    Tree,
)
from gpufeed.transforms.error_context import errors_from
from gpufeed.transforms.frame import Frame
from gpufeed.transforms.function import Lambda
from gpufeed.transforms.objects import Objects

__all__ = ["ComposedView", "Composition", "Mix", "Partners", "narrowed"]


@dataclass(frozen=True)
class Mix:
    """Partners and shares of mixed records.

    Attributes:
        partner: int64 (n,), rows of the batch.
        share: float32 (n,), weight of the record's own label, 0 to 1.
    """

    partner: npt.NDArray[np.int64]
    share: npt.NDArray[np.float32]


Partners = Callable[[int], npt.NDArray[np.int64]]
"""Takes the size of groups and returns each record's partner, int64 (n,), rows of the batch."""


@dataclass(frozen=True)
class ComposedView:
    """One view of a batch, composed.

    Attributes:
        view: its stages.
        structure: the stages without their arrays, the same for all views of one list.
        frames: the last frame of all views that were composed together.
        rows: the rows of `frames` that belong to this view.
        kept: bool (m,), False for boxes that a transform dropped.
        mix: partners and shares; None if no transform mixes.
    """

    view: View
    structure: View
    frames: Frame
    rows: slice
    kept: npt.NDArray[np.bool_]
    mix: Mix | None

    @property
    def frame(self) -> Frame:
        """The view's last frame, through which boxes and points are mapped."""
        return self.frames.take(self.rows)


class Composition:
    """The state of composing a list of transforms, for one or several views of the same list.

    The rows of several views follow each other.

    Args:
        sizes: int64 (n, 2), height and width of the encoded images.

    Attributes:
        frame: the last frame so far.
        first: the frame of the encoded images, complete.
        window: the window that is read of each encoded image.
    """

    first: Frame
    window: Window
    _first: Resample

    def __init__(self, sizes: npt.NDArray[np.int64]) -> None:
        self.frame = Frame.whole(sizes)
        self._mix: Mix | None = None
        self._stages: list[Stage] = []
        self._late: list[Late | Mixing] = []
        self._emitted: Frame | None = None

    def add_all(
        self,
        transforms: Sequence[Transform],
        numbers: npt.NDArray[np.int64],
        record_key: npt.NDArray[np.int64],
        boxes: npt.NDArray[np.float64] | None,
        rng: BatchRng,
        partners: Partners,
        objects: Objects | None,
    ) -> None:
        """Apply all transforms of the list; see `compose` for the arguments.

        `numbers`, int64 (transforms, n), are the transform numbers that select random numbers.
        """
        self._record_key = record_key
        self._kept = np.ones(0 if objects is None else len(objects.boxes), dtype=np.bool_)
        records: _LazyRecords | None = None
        for number, transform in zip(numbers, transforms, strict=True):
            own = rng.spawn(number)
            if isinstance(transform, OutputFormat):
                self._emit_frames()
                self._output = transform
                continue
            frame = self.frame
            if records is None or records.frame is not frame:
                records = _LazyRecords(record_key, frame.height, frame.width, boxes, frame=frame)
            if isinstance(transform, GeometricTransform):
                moved = None
                if transform.uses_objects and objects is not None:
                    moved = objects.followed(frame)
                    left = moved.chosen(self._kept & moved.has_area)
                    records = _LazyRecords(
                        record_key, frame.height, frame.width, boxes, left, frame
                    )
                with errors_from(transform):
                    params = transform.draw(own, records)
                    if moved is not None:
                        per_box = {name: values[moved.rows] for name, values in params.items()}
                        self._kept &= transform.keep(moved.boxes, per_box)
                    self.frame = transform.place(frame, params)
            elif isinstance(transform, PixelTransform):
                with errors_from(transform):
                    stage = Pixel(transform, narrowed(transform.draw(own, records)))
                self._emit_frames()
                self._stages.append(stage)
                self.frame = frame.then(transform.size if isinstance(transform, Lambda) else None)
                self._emitted = frame
            elif isinstance(transform, LateTransform):
                with errors_from(transform):
                    self._late.append(Late(transform, narrowed(transform.draw(own, records))))
            elif isinstance(transform, MixTransform):
                with errors_from(transform):
                    drawn, share = transform.draw(own, records)
                    drawn = narrowed(drawn)
                partner = partners(transform.group)
                self._mix = Mix(partner, share)
                self._late.append(Mixing(transform, drawn, partner.astype(np.int32)))

    def cut(self, decoded: Window) -> None:
        """Crop the window out of the decoded one, which all views share."""
        start = np.tile(decoded.start, (len(self.window.start) // len(decoded.start), 1))
        within = Window(self.window.start - start, self.window.shape)
        self._first = replace(self._first, cut=within)

    def views(self, count: int) -> Iterator[ComposedView]:
        """Yield each of `count` views."""
        size = _common_size(self.frame, self._record_key)
        together = View((self._first, *self._stages), self._output, tuple(self._late), size)
        structure = together.structure
        n, m = len(self.frame) // count, len(self._kept) // count
        for index in range(count):
            rows = slice(index * n, (index + 1) * n)
            view = together if count == 1 else map_arrays(itemgetter(rows), together)
            kept = self._kept[index * m : (index + 1) * m]
            yield ComposedView(view, structure, self.frame, rows, kept, self._mix)

    def _emit_frames(self) -> None:
        """Add the stages of the frames since the last pixel transform."""
        for frame in self.frame.chain(since=self._emitted):
            if frame.previous is None:
                self.first = frame
                self.window, self._first = resample(frame, cut=False)
            elif frame.resamples:
                self._stages.append(resample(frame, cut=frame.cuts)[1])
            warp = frame.warped
            if warp is not None:
                matrix = np.ascontiguousarray(warp.matrix, np.float32)
                mask = np.ascontiguousarray(warp.mask)
                self._stages.append(Warp(matrix, mask, warp.sampling, warp.fill))


class _LazyRecords(Records):
    """Records that compute their boxes on first use, since few transforms use them.

    A subclass of `Records` with the same arguments, so that a transform may copy it with other
    values. If a `frame` is passed, the `boxes` passed are those of the encoded images.
    """

    frame: Frame | None

    def __init__(
        self,
        record_key: npt.NDArray[np.int64],
        height: npt.NDArray[np.int64],
        width: npt.NDArray[np.int64],
        boxes: npt.NDArray[np.float64] | None,
        objects: Objects | None = None,
        frame: Frame | None = None,
    ) -> None:
        # Through __dict__, since the base class is frozen.
        own = {"record_key": record_key, "height": height, "width": width, "objects": objects}
        self.__dict__.update(own, frame=frame, given=boxes)

    @cached_property
    def boxes(self) -> npt.NDArray[np.float64] | None:
        """As in `Records`."""
        given: npt.NDArray[np.float64] | None = self.__dict__["given"]
        return given if given is None or self.frame is None else self.frame.map_boxes(given)


_NARROWER: dict[Any, type] = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}


def narrowed(drawn: Tree) -> Tree:
    """Return contiguous copies of drawn arrays, with 64-bit numbers narrowed to 32 bits for DALI.

    Names are sorted, so the structure does not depend on the order of the transform's dictionary.
    """
    arrays: dict[str, Any] = {}
    for name in sorted(drawn):
        values = drawn[name]
        if isinstance(values, Mapping):
            arrays[name] = narrowed(values)
            continue
        values = np.asarray(values)
        arrays[name] = np.array(values, _NARROWER.get(values.dtype, values.dtype), order="C")
    return arrays


def _common_size(frame: Frame, record_key: npt.NDArray[np.int64]) -> tuple[int, int]:
    height, width = int(frame.height[0]), int(frame.width[0])
    differ = (frame.size != frame.size[0]).any(axis=1)
    if differ.any():
        row = int(differ.argmax())
        raise ConfigError(
            f"the transforms give images of different sizes: record {record_key[0]} is {height} x "
            f"{width} and record {record_key[row]} is {frame.height[row]} x {frame.width[row]} "
            "(height x width); add a last geometric transform of fixed size, such as "
            "CenterCrop(224)"
        )
    return height, width
