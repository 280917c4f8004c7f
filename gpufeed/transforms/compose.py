"""From a list of transforms to what the graph does and the numbers it does it with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.rng import MAX_TRANSFORMS, BatchRng
from gpufeed.transforms.base import (
    GeometricTransform,
    OutputFormat,
    Params,
    PixelTransform,
    Records,
    Transform,
)
from gpufeed.transforms.frame import SUPPORT, Fill, Frame, Interpolation, Sampling
from gpufeed.transforms.output import ToDtype
from gpufeed.transforms.targets import Objects

__all__ = [
    "WINDOW",
    "Composed",
    "Pixels",
    "Program",
    "Resample",
    "Stage",
    "View",
    "Warping",
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
class View:
    """What becomes of a decoded window.

    Attributes:
        prefix: the parameter p of stage i is fed as prefix + "i.p".
        stages: in order.
        output: how pixels leave the graph.
        size: (height, width) of every picture at the end.
    """

    prefix: str
    stages: tuple[Stage, ...]
    output: OutputFormat
    size: tuple[int, int]

    @property
    def opening(self) -> tuple[Resample, ...]:
        """The stages before the first that is not a resampling; at least one."""
        found = []
        for stage in self.stages:
            if not isinstance(stage, Resample):
                break
            found.append(stage)
        return tuple(found)


@dataclass(frozen=True)
class Program:
    """Everything about a graph that is the same for all batches: one decode, and its views."""

    views: tuple[View, ...]


@dataclass(frozen=True)
class Composed:
    """A batch's program, its parameters (one contiguous array each), and each view's last frame.

    `kept` holds for each view a bool (m,), False for boxes that a transform dropped.
    """

    program: Program
    params: dict[str, npt.NDArray[Any]]
    frames: tuple[Frame, ...]
    kept: tuple[npt.NDArray[np.bool_], ...]


def check_transforms(transforms: Sequence[Transform]) -> tuple[Transform, ...]:
    """Return the list ending in an `OutputFormat`: untouched levels where it has none.

    Raises:
        ConfigError: something is no transform, or an output format stands before the end.
    """
    given: object = transforms
    if isinstance(given, str):
        raise ConfigError(
            f"transforms is {transforms!r}; it must be a list of transforms, as "
            "gpufeed.presets.train() returns"
        )
    listed = tuple(transforms)
    for place, transform in enumerate(listed):
        if not isinstance(transform, GeometricTransform | PixelTransform | OutputFormat):
            hint = " (pass an instance, not the class)" if isinstance(transform, type) else ""
            raise ConfigError(f"transforms[{place}] is {transform!r}, no gpufeed transform{hint}")
        if isinstance(transform, OutputFormat) and place != len(listed) - 1:
            raise ConfigError(
                f"transforms[{place}] is {type(transform).__name__}, which must come last"
            )
    if len(listed) > MAX_TRANSFORMS:
        raise ConfigError(f"{len(listed)} transforms; {MAX_TRANSFORMS} are the most")
    if not listed or not isinstance(listed[-1], OutputFormat):
        listed += (ToDtype("uint8"),)
    return listed


def compose(
    views: Sequence[Sequence[Transform]],
    record_key: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    boxes: npt.NDArray[np.float64] | None,
    rng: BatchRng,
    objects: Objects | None = None,
) -> Composed:
    """Draw everything for a batch, and lay it out for the graph.

    Args:
        views: lists of transforms, each as `check_transforms` returns it.
        record_key: int64 (n,), n at least 1.
        sizes: int64 (n, 2), height and width of the encoded pictures, oriented.
        boxes: float64 (n, 4) of (x0, y0, x1, y1) in pixels, or None.
        rng: the batch's numbers.
        objects: all boxes of each picture, m together, as it is encoded; None for none.

    Raises:
        ConfigError: the pictures do not all come out in one size, or a transform can not be applied
            to one of them.
    """
    made = []
    number = 0
    for place, transforms in enumerate(views):
        prefix = f"{place}." if len(views) > 1 else ""
        view = _Composition(prefix, sizes, cut=len(views) > 1)
        view.add_all(transforms, number, record_key, boxes, rng, objects)
        made.append(view)
        # So that no two views draw the same numbers.
        number += len(transforms)
    params = {name: values for view in made for name, values in view.params.items()}
    start = np.min([view.start for view in made], axis=0)
    end = np.max([view.start + view.shape for view in made], axis=0)
    params[f"{WINDOW}.start"] = start.astype(np.int32)
    params[f"{WINDOW}.shape"] = (end - start).astype(np.int32)
    if len(made) > 1:
        for view in made:
            view.params[f"{view.prefix}0.start"] -= params[f"{WINDOW}.start"]
    program = Program(tuple(view.done(record_key) for view in made))
    frames, kept = (view.frame for view in made), (view.kept for view in made)
    return Composed(program, params, tuple(frames), tuple(kept))


class _Composition:
    """One view of a batch, while its transforms are gone through."""

    def __init__(self, prefix: str, sizes: npt.NDArray[np.int64], *, cut: bool) -> None:
        self.prefix = prefix
        self.frame = Frame.whole(sizes)
        self.params: dict[str, npt.NDArray[Any]] = {}
        self.kept = np.ones(0, dtype=np.bool_)
        self._stages: list[Stage] = []
        self._cut = cut
        self._emitted: Frame | None = None

    def add_all(
        self,
        transforms: Sequence[Transform],
        number: int,
        record_key: npt.NDArray[np.int64],
        boxes: npt.NDArray[np.float64] | None,
        rng: BatchRng,
        objects: Objects | None,
    ) -> None:
        self.kept = np.ones(0 if objects is None else len(objects.boxes), dtype=np.bool_)
        for transform in transforms[:-1]:
            frame = self.frame
            seen = Records(
                record_key=record_key,
                height=frame.height,
                width=frame.width,
                boxes=None if boxes is None else frame.map_boxes(boxes),
            )
            if isinstance(transform, GeometricTransform):
                moved = None
                if transform.uses_objects and objects is not None:
                    moved = objects.followed(frame)
                    seen = replace(seen, objects=moved.chosen(self.kept & moved.has_area))
                drawn = transform.draw(rng.spawn(number), seen)
                if moved is not None:
                    of_each = {name: values[moved.rows] for name, values in drawn.items()}
                    self.kept &= transform.keep(moved.boxes, of_each)
                self.frame = transform.place(frame, drawn)
            elif isinstance(transform, PixelTransform):
                drawn = transform.draw(rng.spawn(number), seen)
                self._carry_out()
                narrow = {name: _narrow(values) for name, values in drawn.items()}
                self._add(Pixels(transform, tuple(drawn)), narrow)
                self.frame = frame.then()
                self._emitted = frame
            number += 1
        self._carry_out()
        output = transforms[-1]
        if not isinstance(output, OutputFormat):
            raise TypeError("the last transform must be an OutputFormat")
        self._output = output

    def done(self, record_key: npt.NDArray[np.int64]) -> View:
        size = _one_size(self.frame, record_key)
        return View(self.prefix, tuple(self._stages), self._output, size)

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


def _narrow(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The type that DALI's operators take: they refuse NumPy's own 64-bit numbers."""
    kinds = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}
    return values.astype(kinds.get(values.dtype, values.dtype))


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
