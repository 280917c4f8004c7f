"""From a list of transforms to what the graph does and the numbers it does it with."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
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
from gpufeed.transforms.frame import SUPPORT, Fill, Frame, Interpolation
from gpufeed.transforms.output import ToDtype

__all__ = ["Composed", "Pixels", "Program", "Resample", "check_transforms", "compose"]


@dataclass(frozen=True)
class Resample:
    """One frame's static half: cut a window, then, each only if set, resize, pad, flip.

    Parameters, row i for record i, sizes and places as (y, x): `start`, `shape` of the window; with
    `interpolation` the new `size`; if `trimmed` the part of the window that it shows, `roi_start`
    and `roi_end`; with `fill` the canvas, `pad_start` and `pad_shape`; if `mirrored`, `mirror`.
    """

    interpolation: Interpolation | None
    trimmed: bool
    fill: Fill | None
    mirrored: bool


@dataclass(frozen=True)
class Pixels:
    """A pixel transform in the graph, and the names of its parameters."""

    transform: PixelTransform
    names: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """Everything about a graph that is the same for all batches.

    Attributes:
        stages: in order; the parameter p of stage i is fed as "i.p".
        output: how pixels leave the graph.
        size: (height, width) of every picture at the end.
    """

    stages: tuple[Resample | Pixels, ...]
    output: OutputFormat
    size: tuple[int, int]

    @property
    def opening(self) -> tuple[Resample, ...]:
        """The stages before the first pixel transform; at least one, which decodes."""
        resamples = itertools.takewhile(lambda stage: isinstance(stage, Resample), self.stages)
        return tuple(stage for stage in resamples if isinstance(stage, Resample))


@dataclass(frozen=True)
class Composed:
    """A batch's program, its parameters (one contiguous array each), and its last frame."""

    program: Program
    params: dict[str, npt.NDArray[Any]]
    frame: Frame


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
    transforms: Sequence[Transform],
    record_key: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    boxes: npt.NDArray[np.float64] | None,
    rng: BatchRng,
) -> Composed:
    """Draw everything for a batch, and lay it out for the graph.

    Args:
        transforms: as `check_transforms` returns them.
        record_key: int64 (n,), n at least 1.
        sizes: int64 (n, 2), height and width of the encoded pictures, oriented.
        boxes: float64 (n, 4) of (x0, y0, x1, y1) in pixels, or None.
        rng: the batch's numbers.

    Raises:
        ConfigError: the pictures do not all come out in one size, or a transform can not be applied
            to one of them.
    """
    stages: list[Resample | Pixels] = []
    params: dict[str, npt.NDArray[Any]] = {}
    frame = Frame.whole(sizes)

    def add(stage: Resample | Pixels, drawn: Params) -> None:
        for name, values in drawn.items():
            params[f"{len(stages)}.{name}"] = np.ascontiguousarray(values)
        stages.append(stage)

    def carried_out(upto: Frame, since: Frame | None) -> None:
        for done in upto.chain():
            if since is None:
                add(*_resample(done))
            elif done is since:
                since = None

    emitted: Frame | None = None
    for number, transform in enumerate(transforms[:-1]):
        seen = Records(
            record_key=record_key,
            height=frame.height,
            width=frame.width,
            boxes=None if boxes is None else frame.map_boxes(boxes),
        )
        if isinstance(transform, GeometricTransform):
            frame = transform.place(frame, transform.draw(rng.spawn(number), seen))
        elif isinstance(transform, PixelTransform):
            drawn = transform.draw(rng.spawn(number), seen)
            carried_out(frame, emitted)
            emitted = frame
            add(Pixels(transform, tuple(drawn)), {k: _narrow(v) for k, v in drawn.items()})
            frame = frame.then()
    carried_out(frame, emitted)

    output = transforms[-1]
    if not isinstance(output, OutputFormat):
        raise TypeError("the last transform must be an OutputFormat")
    return Composed(Program(tuple(stages), output, _one_size(frame, record_key)), params, frame)


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


def _resample(frame: Frame) -> tuple[Resample, Params]:
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
    stage = Resample(frame.interpolation, frame.trimmed, frame.fill, frame.mirrored)
    return stage, params
