"""From a list of transforms to what the graph does and the numbers it does it with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms.base import (
    GeometricTransform,
    LateTransform,
    MixTransform,
    OutputFormat,
    Params,
    PixelTransform,
    Records,
    Transform,
)
from gpufeed.transforms.blame import Blaming
from gpufeed.transforms.frame import SUPPORT, Frame
from gpufeed.transforms.program import (
    WINDOW,
    Late,
    Pixels,
    Program,
    Resample,
    Stage,
    View,
    Warping,
)
from gpufeed.transforms.targets import Objects

__all__ = ["Composed", "Mix", "Partners", "compose"]


@dataclass(frozen=True)
class Composed:
    """A batch's program and the numbers for it.

    Attributes:
        program: what the graph does.
        params: one contiguous array each.
        frames: each view's last.
        mix: who was mixed with whom; None where no transform does.
        kept: for each view a bool (m,), False for boxes that a transform dropped.
    """

    program: Program
    params: dict[str, npt.NDArray[Any]]
    frames: tuple[Frame, ...]
    mix: Mix | None
    kept: tuple[npt.NDArray[np.bool_], ...]


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


def compose(
    views: Sequence[Sequence[Transform]],
    record_key: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    boxes: npt.NDArray[np.float64] | None,
    rng: BatchRng,
    partners: Partners,
    objects: Objects | None = None,
    shared: int = 0,
) -> Composed:
    """Draw everything for a batch, and lay it out for the graph.

    Args:
        views: lists of transforms, each as `check_transforms` returns it.
        record_key: int64 (n,), n at least 1.
        sizes: int64 (n, 2), height and width of the encoded pictures, oriented.
        boxes: float64 (n, 4) of (x0, y0, x1, y1) in pixels, or None.
        rng: the batch's numbers.
        partners: whom mixes pair a record with.
        objects: all boxes of each picture, m together, as it is encoded; None for none.
        shared: how many of the first transforms are one and the same for all views, and so draw
            the same numbers.

    Raises:
        ConfigError: the pictures do not all come out in one size, or a transform can not be applied
            to one of them.
    """
    several = len(views) > 1
    if several and any(isinstance(each, MixTransform) for view in views for each in view):
        raise ConfigError("a view mixes pictures, but views have one label; mix in single views")
    numbers: list[list[int]] = []
    number = 0
    for transforms in views:
        numbers.append([*range(shared), *range(number + shared, number + len(transforms))])
        # So that no two views draw the same numbers of their own.
        number += len(transforms) - shared
    # Views of the very same transforms are composed as one batch, which costs little more than one.
    alike: dict[tuple[int, ...], list[int]] = {}
    for place, transforms in enumerate(views):
        alike.setdefault(tuple(id(each) for each in transforms), []).append(place)
    made: dict[int, _Part] = {}
    for places in alike.values():
        copies = len(places)
        own = np.repeat(np.transpose([numbers[place] for place in places]), len(sizes), axis=1)
        composition = _Composition(np.tile(sizes, (copies, 1)), cut=several)
        composition.add_all(
            views[places[0]],
            own,
            np.tile(record_key, copies),
            None if boxes is None else np.tile(boxes, (copies, 1)),
            rng.tiled(copies),
            partners,
            None if objects is None else objects.tiled(copies),
        )
        made |= zip(places, composition.parts(copies), strict=True)
    start = np.min([part.start for part in made.values()], axis=0)
    end = np.max([part.start + part.shape for part in made.values()], axis=0)
    params = {
        f"{WINDOW}.start": start.astype(np.int32),
        f"{WINDOW}.shape": (end - start).astype(np.int32),
    }
    programs = []
    for place in range(len(views)):
        part = made[place]
        prefix = f"{place}." if several else ""
        params |= {f"{prefix}{name}": values for name, values in part.params.items()}
        if several:
            params[f"{prefix}0.start"] = part.start - params[f"{WINDOW}.start"]
        programs.append(View(prefix, *part.program))
    parts = [made[place] for place in range(len(views))]
    frames, kept = (part.frame for part in parts), (part.kept for part in parts)
    return Composed(Program(tuple(programs)), params, tuple(frames), parts[0].mix, tuple(kept))


@dataclass(frozen=True)
class _Part:
    """One view's share of a composition.

    Attributes:
        program: a View's stages, output, late and size.
        params: by their names without the view's prefix.
        start: int32 (n, 2), of its window.
        shape: int32 (n, 2).
        frame: its last.
        mix: who was mixed with whom.
        kept: bool (m,).
    """

    program: tuple[tuple[Stage, ...], OutputFormat, tuple[Late, ...], tuple[int, int]]
    params: Params
    start: npt.NDArray[np.int32]
    shape: npt.NDArray[np.int32]
    frame: Frame
    mix: Mix | None
    kept: npt.NDArray[np.bool_]


class _Seen(Records):
    """Records whose boxes are looked for when a transform asks for them, which few do.

    As `Records`, so that a transform may copy them with other values; but where a `frame` is given,
    `boxes` are those of the encoded pictures.
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


class _Composition:
    """One view of a batch, or several of the same transforms, while these are gone through."""

    def __init__(self, sizes: npt.NDArray[np.int64], *, cut: bool) -> None:
        self.frame = Frame.whole(sizes)
        self.params: dict[str, npt.NDArray[Any]] = {}
        self.mix: Mix | None = None
        self.kept = np.ones(0, dtype=np.bool_)
        self._stages: list[Stage] = []
        self._late: list[Late] = []
        self._cut = cut
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
        self._record_key = record_key
        self.kept = np.ones(0 if objects is None else len(objects.boxes), dtype=np.bool_)
        seen: _Seen | None = None
        for number, transform in zip(numbers, transforms, strict=True):
            own = rng.spawn(number)
            if isinstance(transform, OutputFormat):
                self._carry_out()
                self._output = transform
                continue
            frame = self.frame
            if seen is None or seen.frame is not frame:
                seen = _Seen(record_key, frame.height, frame.width, boxes, frame=frame)
            if isinstance(transform, GeometricTransform):
                moved = None
                if transform.uses_objects and objects is not None:
                    moved = objects.followed(frame)
                    left = moved.chosen(self.kept & moved.has_area)
                    seen = _Seen(record_key, frame.height, frame.width, boxes, left, frame)
                with Blaming(transform):
                    drawn = transform.draw(own, seen)
                    if moved is not None:
                        of_each = {name: values[moved.rows] for name, values in drawn.items()}
                        self.kept &= transform.keep(moved.boxes, of_each)
                    self.frame = transform.place(frame, drawn)
            elif isinstance(transform, PixelTransform):
                with Blaming(transform):
                    drawn = transform.draw(own, seen)
                self._carry_out()
                self._add(Pixels(transform, tuple(drawn)), _narrowed(drawn))
                self.frame = frame.then()
                self._emitted = frame
            elif isinstance(transform, LateTransform):
                with Blaming(transform):
                    drawn = transform.draw(own, seen)
                self._add_late(transform, drawn)
            elif isinstance(transform, MixTransform):
                with Blaming(transform):
                    drawn, share = transform.draw(own, seen)
                partner = partners(transform.group)
                self.mix = Mix(partner, share)
                self._add_late(transform, {**drawn, "partner": partner})

    def parts(self, count: int) -> Iterator[_Part]:
        """Return what came of each of `count` views, which have their rows one after the other."""
        size = _one_size(self.frame, self._record_key)
        program = tuple(self._stages), self._output, tuple(self._late), size
        height, boxes = len(self.frame) // count, len(self.kept) // count
        for number in range(count):
            rows = slice(number * height, (number + 1) * height)
            yield _Part(
                program=program,
                params={name: values[rows] for name, values in self.params.items()},
                start=self.start[rows],
                shape=self.shape[rows],
                frame=self.frame if count == 1 else self.frame.take(rows),
                mix=self.mix,
                kept=self.kept[number * boxes : (number + 1) * boxes],
            )

    def _carry_out(self) -> None:
        """Add the stages of the frames that came since the last pixel transform."""
        for frame in self.frame.chain(since=self._emitted):
            first = not self._stages
            if first or frame.resamples:
                stage, params = _resample(frame, cut=self._cut if first else frame.cuts)
                if first:
                    self.start, self.shape = params["start"], params["shape"]
                if not stage.cut:
                    del params["start"]
                self._add(stage, params)
            if frame.warped is not None:
                warp = frame.warped
                params = {"matrix": warp.matrix.astype(np.float32), "mask": warp.mask}
                self._add(Warping(warp.sampling, warp.fill), params)

    def _add(self, stage: Stage, params: Params) -> None:
        for name, values in params.items():
            own = f"{len(self._stages)}.{name}"
            self.params[own] = np.ascontiguousarray(values)
        self._stages.append(stage)

    def _add_late(self, transform: LateTransform | MixTransform, drawn: Params) -> None:
        for name, values in _narrowed(drawn).items():
            own = f"late {len(self._late)}.{name}"
            self.params[own] = np.ascontiguousarray(values)
        self._late.append(Late(transform, tuple(drawn)))


def _narrowed(drawn: Params) -> Params:
    """As the types that DALI's operators take: they refuse NumPy's own 64-bit numbers."""
    kinds = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}
    return {
        name: values.astype(kinds.get(values.dtype, values.dtype)) for name, values in drawn.items()
    }


def _one_size(frame: Frame, record_key: npt.NDArray[np.int64]) -> tuple[int, int]:
    height, width = int(frame.height[0]), int(frame.width[0])
    differ = (frame.size != frame.size[0]).any(axis=1)
    if differ.any():
        other = int(differ.argmax())
        raise ConfigError(
            f"pictures of a batch must come out in one size, but record {record_key[0]} comes out "
            f"as {height} x {width} and record {record_key[other]} as {frame.height[other]} x "
            f"{frame.width[other]} (height x width); end the geometry with, say, CenterCrop(224)"
        )
    return height, width


def _resample(frame: Frame, *, cut: bool) -> tuple[Resample, Params]:
    """Return the stage and the parameters that carry out one frame."""
    shown, end = frame.shown, frame.shown_end
    blank = end <= shown
    if blank.any():
        # Nothing of the picture is left: keep one pixel, and put the canvas where it is not.
        shown = np.clip(shown, 0, frame.scaled - 1)
        end = np.where(blank, shown + 1, end)

    params: Params = {}
    if frame.interpolation is None:
        start, shape = frame.source + shown, end - shown
    elif not frame.trimmed:
        start, shape = frame.source, frame.extent
        params["size"] = frame.scaled.astype(np.float32)
    else:
        # The least window that gives the kept pixels: what they show and what the filter reads
        # around it. Where it ends at the extent's edge, the filter ends there as it would have.
        scale = frame.extent / frame.scaled
        reach = SUPPORT[frame.interpolation] * np.maximum(scale, 1.0) + 1.0
        roi_start, roi_end = shown * scale, end * scale
        first = np.maximum(np.floor(roi_start - reach).astype(np.int64), 0)
        last = np.minimum(np.ceil(roi_end + reach).astype(np.int64), frame.extent)
        start, shape = frame.source + first, last - first
        params["size"] = (end - shown).astype(np.float32)
        params["roi_start"] = (roi_start - first).astype(np.float32)
        params["roi_end"] = (roi_end - first).astype(np.float32)
    params["start"] = start.astype(np.int32)
    params["shape"] = shape.astype(np.int32)
    if frame.fill is not None:
        place = np.where(blank, 1, frame.origin - shown)
        params["pad_start"] = place.astype(np.int32)
        params["pad_shape"] = frame.size.astype(np.int32)
    if frame.mirrored:
        params["mirror"] = frame.mirror.astype(np.int32)
    if frame.upturned:
        params["upturn"] = frame.upturn.astype(np.int32)
    stage = Resample(
        cut, frame.interpolation, frame.trimmed, frame.fill, frame.mirrored, frame.upturned
    )
    return stage, params
