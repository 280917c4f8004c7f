"""What a graph does: the half of composed transforms that is the same for all batches."""

from __future__ import annotations

from dataclasses import dataclass

from gpufeed.transforms.base import LateTransform, MixTransform, OutputFormat, PixelTransform
from gpufeed.transforms.frame import Fill, Interpolation, Sampling
from gpufeed.transforms.function import Lambda

__all__ = [
    "WINDOW",
    "Late",
    "Pixels",
    "Program",
    "Resample",
    "Stage",
    "View",
    "Warping",
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
