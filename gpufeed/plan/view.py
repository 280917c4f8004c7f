"""One list of transforms, drawn for a batch and laid out in stages."""

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
from gpufeed.transforms.objects import Objects

__all__ = ["ComposedView", "Composition", "Mix", "Partners", "narrowed"]


@dataclass(frozen=True)
class Mix:
    """Who was mixed with whom.

    Attributes:
        partner: int64 (n,), rows of the batch.
        share: float32 (n,), how much of the label is the record's own, 0 to 1.
    """

    partner: npt.NDArray[np.int64]
    share: npt.NDArray[np.float32]


Partners = Callable[[int], npt.NDArray[np.int64]]
"""From the size of groups to each record's partner, int64 (n,), rows of the batch."""


@dataclass(frozen=True)
class ComposedView:
    """What came of one list of transforms.

    Attributes:
        view: its stages.
        structure: theirs, which all views of one list have.
        frames: the last frame, of several such views one after the other.
        rows: this view's rows of it.
        kept: bool (m,), False for boxes that a transform dropped.
        mix: None where no transform mixes.
    """

    view: View
    structure: View
    frames: Frame
    rows: slice
    kept: npt.NDArray[np.bool_]
    mix: Mix | None

    @property
    def frame(self) -> Frame:
        """The view's last frame, through which boxes and points follow."""
        return self.frames.take(self.rows)


class Composition:
    """A list of transforms while it is gone through, for one view or for several of the same list.

    Several have their rows one after the other.

    Args:
        sizes: int64 (n, 2), height and width of the encoded images.

    Attributes:
        window: what is read of each encoded image.
    """

    window: Window
    _first: Resample

    def __init__(self, sizes: npt.NDArray[np.int64]) -> None:
        self._frame = Frame.whole(sizes)
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
        """Go through the list; see `compose` for the arguments.

        `numbers`, int64 (transforms, n), are those by which transforms draw.
        """
        self._record_key = record_key
        self._kept = np.ones(0 if objects is None else len(objects.boxes), dtype=np.bool_)
        seen: _Seen | None = None
        for number, transform in zip(numbers, transforms, strict=True):
            own = rng.spawn(number)
            if isinstance(transform, OutputFormat):
                self._carry_out()
                self._output = transform
                continue
            frame = self._frame
            if seen is None or seen.frame is not frame:
                seen = _Seen(record_key, frame.height, frame.width, boxes, frame=frame)
            if isinstance(transform, GeometricTransform):
                moved = None
                if transform.uses_objects and objects is not None:
                    moved = objects.followed(frame)
                    left = moved.chosen(self._kept & moved.has_area)
                    seen = _Seen(record_key, frame.height, frame.width, boxes, left, frame)
                with errors_from(transform):
                    drawn = transform.draw(own, seen)
                    if moved is not None:
                        of_each = {name: values[moved.rows] for name, values in drawn.items()}
                        self._kept &= transform.keep(moved.boxes, of_each)
                    self._frame = transform.place(frame, drawn)
            elif isinstance(transform, PixelTransform):
                with errors_from(transform):
                    stage = Pixel(transform, narrowed(transform.draw(own, seen)))
                self._carry_out()
                self._stages.append(stage)
                self._frame = frame.then()
                self._emitted = frame
            elif isinstance(transform, LateTransform):
                with errors_from(transform):
                    self._late.append(Late(transform, narrowed(transform.draw(own, seen))))
            elif isinstance(transform, MixTransform):
                with errors_from(transform):
                    params, share = transform.draw(own, seen)
                    params = narrowed(params)
                partner = partners(transform.group)
                self._mix = Mix(partner, share)
                self._late.append(Mixing(transform, params, partner.astype(np.int32)))

    def cut(self, decoded: Window) -> None:
        """Cut what is read out of a larger window, of which there is one for several views."""
        start = np.tile(decoded.start, (len(self.window.start) // len(decoded.start), 1))
        within = Window(self.window.start - start, self.window.shape)
        self._first = replace(self._first, cut=within)

    def views(self, count: int) -> Iterator[ComposedView]:
        """Return what came of each of `count` views."""
        size = _one_size(self._frame, self._record_key)
        whole = View((self._first, *self._stages), self._output, tuple(self._late), size)
        structure = whole.structure
        height, boxes = len(self._frame) // count, len(self._kept) // count
        for number in range(count):
            rows = slice(number * height, (number + 1) * height)
            view = whole if count == 1 else map_arrays(itemgetter(rows), whole)
            kept = self._kept[number * boxes : (number + 1) * boxes]
            yield ComposedView(view, structure, self._frame, rows, kept, self._mix)

    def _carry_out(self) -> None:
        """Add the stages of the frames that came since the last pixel transform."""
        for frame in self._frame.chain(since=self._emitted):
            if frame.previous is None:
                self.window, self._first = resample(frame, cut=False)
            elif frame.resamples:
                self._stages.append(resample(frame, cut=frame.cuts)[1])
            warp = frame.warped
            if warp is not None:
                matrix = np.ascontiguousarray(warp.matrix, np.float32)
                mask = np.ascontiguousarray(warp.mask)
                self._stages.append(Warp(matrix, mask, warp.sampling, warp.fill))


class _Seen(Records):
    """Records whose boxes are looked for when a transform asks for them, which few do.

    As `Records`, so that a transform may copy them with other values; but where a `frame` is given,
    `boxes` are those of the encoded images.
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
        own = {"record_key": record_key, "height": height, "width": width, "objects": objects}
        self.__dict__.update(own, frame=frame, given=boxes)

    @cached_property
    def boxes(self) -> npt.NDArray[np.float64] | None:
        """As `Records` has them."""
        given: npt.NDArray[np.float64] | None = self.__dict__["given"]
        return given if given is None or self.frame is None else self.frame.map_boxes(given)


_NARROWER: dict[Any, type] = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}


def narrowed(drawn: Tree) -> Tree:
    """Copy what a transform drew to arrays as DALI takes them: it refuses 64-bit numbers.

    They are in the order of their names, whatever order the transform has them in.
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


def _one_size(frame: Frame, record_key: npt.NDArray[np.int64]) -> tuple[int, int]:
    height, width = int(frame.height[0]), int(frame.width[0])
    differ = (frame.size != frame.size[0]).any(axis=1)
    if differ.any():
        other = int(differ.argmax())
        raise ConfigError(
            f"images of a batch must come out in one size, but record {record_key[0]} comes out "
            f"as {height} x {width} and record {record_key[other]} as {frame.height[other]} x "
            f"{frame.width[other]} (height x width); end the geometry with, say, CenterCrop(224)"
        )
    return height, width
