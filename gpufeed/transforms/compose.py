"""From a list of transforms to what the graph does and the numbers it does it with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.rng import MAX_TRANSFORMS, BatchRng
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
from gpufeed.transforms.frame import SUPPORT, Fill, Frame, Interpolation, Sampling
from gpufeed.transforms.function import Lambda
from gpufeed.transforms.nested import flat
from gpufeed.transforms.output import ToDtype
from gpufeed.transforms.targets import Objects

__all__ = [
    "WINDOW",
    "Composed",
    "Late",
    "Mix",
    "Partners",
    "Pixels",
    "Program",
    "Resample",
    "Stage",
    "View",
    "Warping",
    "check_functions",
    "check_transforms",
    "compose",
]

WINDOW = "window"
"""The parameters "window.start" and "window.shape" say what is decoded of each picture."""


@dataclass(frozen=True)
class Resample:
    """One frame's static half: each only if set, cut a window, resize, pad, flip.

    Parameters, row i for record i, sizes and places as (y, x): the window's `shape`, and its
    `start` if `cut`; with `interpolation` the new `size`; if `trimmed` the part of the window that
    it shows, `roi_start` and `roi_end`; with `fill` the canvas, `pad_start` and `pad_shape`; if
    `mirrored`, `mirror`, left to right; if `upturned`, `upturn`, top to bottom.
    """

    cut: bool
    interpolation: Interpolation | None
    trimmed: bool
    fill: Fill | None
    mirrored: bool
    upturned: bool


@dataclass(frozen=True)
class Warping:
    """A frame's warp; its parameters are `matrix`, float32 (n, 3, 3), and `mask`, bool (n,)."""

    sampling: Sampling
    fill: Fill


@dataclass(frozen=True)
class Pixels:
    """A pixel transform in the graph, and the names of its parameters."""

    transform: PixelTransform
    names: tuple[str, ...]


Stage = Resample | Warping | Pixels


@dataclass(frozen=True)
class Late:
    """A transform of what the output format gives, and the names of its parameters.

    A mix's partners are the parameter `partner`, int32 (n,), rows of the batch.
    """

    transform: LateTransform | MixTransform
    names: tuple[str, ...]


_LATE = (LateTransform, MixTransform)
_KINDS = (GeometricTransform, PixelTransform, OutputFormat, *_LATE)


@dataclass(frozen=True)
class View:
    """What becomes of a decoded window.

    Attributes:
        prefix: the parameter p of stage i is fed as prefix + "i.p".
        stages: in order.
        output: what becomes of levels.
        late: what is done after that; its parameters are fed as prefix + "late i.p".
        size: (height, width) of every picture at the end.
    """

    prefix: str
    stages: tuple[Stage, ...]
    output: OutputFormat
    late: tuple[Late, ...]
    size: tuple[int, int]

    @property
    def opening(self) -> tuple[Resample | Pixels, ...]:
        """The first stages, at least one, which the host can carry out as well as the graph."""
        found: list[Resample | Pixels] = []
        for stage in self.stages:
            if isinstance(stage, Warping):
                break
            if isinstance(stage, Pixels) and not isinstance(stage.transform, Lambda):
                break
            found.append(stage)
        return tuple(found)


@dataclass(frozen=True)
class Program:
    """Everything about a graph that is the same for all batches: one decode, and its views."""

    views: tuple[View, ...]


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


def check_transforms(transforms: Sequence[Transform]) -> tuple[Transform, ...]:
    """Return the list with an `OutputFormat` in it: untouched levels where it has none.

    Raises:
        ConfigError: something is no transform, or stands on the wrong side of the output format.
    """
    listed = tuple(flat(transforms))
    for place, transform in enumerate(listed):
        if not isinstance(transform, _KINDS):
            hint = " (pass an instance, not the class)" if isinstance(transform, type) else ""
            if getattr(transform, "makes_views", False):
                hint = "; it makes several views, and is not for one of several or inside a list"
            raise ConfigError(f"transforms[{place}] is {transform!r}, no gpufeed transform{hint}")
    if len(listed) > MAX_TRANSFORMS:
        raise ConfigError(f"{len(listed)} transforms; {MAX_TRANSFORMS} are the most")
    late = [place for place, each in enumerate(listed) if isinstance(each, _LATE)]
    if not any(isinstance(each, OutputFormat) for each in listed):
        end = late[0] if late else len(listed)
        listed = (*listed[:end], ToDtype("uint8"), *listed[end:])
    _check_order(listed)
    return listed


def check_functions(program: Program, *, on_host: bool) -> None:
    """Check that each `Lambda` stands where it can be called.

    Args:
        program: of a loader.
        on_host: whether the host opens its pictures.

    Raises:
        ConfigError: one does not.
    """
    for view in program.views:
        opened = len(view.opening) if on_host else 0
        for stage in view.stages[opened:]:
            if isinstance(stage, Pixels) and isinstance(stage.transform, Lambda):
                raise ConfigError(stage.transform.misplaced())


def _check_order(listed: tuple[Transform, ...]) -> None:
    output = next(place for place, each in enumerate(listed) if isinstance(each, OutputFormat))
    for place, transform in enumerate(listed):
        name, last = type(transform).__name__, type(listed[output]).__name__
        if place < output and isinstance(transform, _LATE):
            raise ConfigError(f"transforms[{place}] is {name}, which must come after {last}")
        if place > output and not isinstance(transform, _LATE):
            raise ConfigError(
                f"transforms[{place}] is {name}, which must come before {last}, transforms"
                f"[{output}]; of output formats there is one"
            )
    if sum(isinstance(each, MixTransform) for each in listed) > 1:
        raise ConfigError("there are several mixes; give one, or RandomChoice of them")


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
    made = []
    number = 0
    for place, transforms in enumerate(views):
        prefix = f"{place}." if len(views) > 1 else ""
        view = _Composition(prefix, sizes, cut=len(views) > 1)
        numbers = [*range(shared), *range(number + shared, number + len(transforms))]
        view.add_all(transforms, numbers, record_key, boxes, rng, partners, objects)
        made.append(view)
        # So that no two views draw the same numbers of their own.
        number += len(transforms) - shared
    params = {name: values for view in made for name, values in view.params.items()}
    start = np.min([view.start for view in made], axis=0)
    end = np.max([view.start + view.shape for view in made], axis=0)
    params[f"{WINDOW}.start"] = start.astype(np.int32)
    params[f"{WINDOW}.shape"] = (end - start).astype(np.int32)
    if len(made) > 1:
        for view in made:
            view.params[f"{view.prefix}0.start"] -= params[f"{WINDOW}.start"]
    program = Program(tuple(view.done(record_key) for view in made))
    mixes = [view.mix for view in made if view.mix is not None]
    if mixes and len(made) > 1:
        raise ConfigError("a view mixes pictures, but views have one label; mix in single views")
    mix = mixes[0] if mixes else None
    frames, kept = (view.frame for view in made), (view.kept for view in made)
    return Composed(program, params, tuple(frames), mix, tuple(kept))


class _Composition:
    """One view of a batch, while its transforms are gone through."""

    def __init__(self, prefix: str, sizes: npt.NDArray[np.int64], *, cut: bool) -> None:
        self.prefix = prefix
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
        numbers: Sequence[int],
        record_key: npt.NDArray[np.int64],
        boxes: npt.NDArray[np.float64] | None,
        rng: BatchRng,
        partners: Partners,
        objects: Objects | None,
    ) -> None:
        self.kept = np.ones(0 if objects is None else len(objects.boxes), dtype=np.bool_)
        mapped = None
        for number, transform in zip(numbers, transforms, strict=True):
            own = rng.spawn(number)
            if isinstance(transform, OutputFormat):
                self._carry_out()
                self._output = transform
                continue
            frame = self.frame
            if mapped is None and boxes is not None:
                mapped = frame.map_boxes(boxes)
            seen = Records(
                record_key=record_key, height=frame.height, width=frame.width, boxes=mapped
            )
            if isinstance(transform, GeometricTransform):
                moved = None
                if transform.uses_objects and objects is not None:
                    moved = objects.followed(frame)
                    seen = replace(seen, objects=moved.chosen(self.kept & moved.has_area))
                drawn = transform.draw(own, seen)
                if moved is not None:
                    of_each = {name: values[moved.rows] for name, values in drawn.items()}
                    self.kept &= transform.keep(moved.boxes, of_each)
                self.frame = transform.place(frame, drawn)
                mapped = None
            elif isinstance(transform, PixelTransform):
                drawn = transform.draw(own, seen)
                self._carry_out()
                self._add(Pixels(transform, tuple(drawn)), _narrowed(drawn))
                self.frame = frame.then()
                self._emitted = frame
            elif isinstance(transform, LateTransform):
                self._add_late(transform, transform.draw(own, seen))
            elif isinstance(transform, MixTransform):
                drawn, share = transform.draw(own, seen)
                partner = partners(transform.group)
                self.mix = Mix(partner, share)
                self._add_late(transform, {**drawn, "partner": partner})

    def done(self, record_key: npt.NDArray[np.int64]) -> View:
        size = _one_size(self.frame, record_key)
        return View(self.prefix, tuple(self._stages), self._output, tuple(self._late), size)

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
            own = f"{self.prefix}{len(self._stages)}.{name}"
            self.params[own] = np.ascontiguousarray(values)
        self._stages.append(stage)

    def _add_late(self, transform: LateTransform | MixTransform, drawn: Params) -> None:
        for name, values in _narrowed(drawn).items():
            own = f"{self.prefix}late {len(self._late)}.{name}"
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
