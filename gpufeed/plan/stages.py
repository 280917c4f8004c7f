"""Stages of a batch: the operations on its images, each with its arrays.

Row i of an array belongs to record i. Sizes and positions are (y, x) in pixels. An optional part is
None if no record of any batch has it. Everything but the numbers in the arrays depends only on
which methods the transforms call, so the graph is built once, from the stages of any batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.transforms.base import LateTransform, MixTransform, OutputFormat, PixelTransform, Tree
from gpufeed.transforms.frame import Fill, Interpolation, Sampling
from gpufeed.transforms.function import Lambda

__all__ = [
    "Canvas",
    "Late",
    "Mixing",
    "Part",
    "Pixel",
    "Resample",
    "Resize",
    "Stage",
    "Stages",
    "View",
    "Warp",
    "Window",
    "calls_functions",
    "check_functions",
    "map_arrays",
]

Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]


class Part:
    """A dataclass of arrays, settings and other parts."""


@dataclass(frozen=True)
class Window(Part):
    """A window of an image.

    Attributes:
        start: int32 (n, 2), its first pixel.
        shape: int32 (n, 2).
    """

    start: Int32
    shape: Int32


@dataclass(frozen=True)
class Resize(Part):
    """An antialiased resize.

    Attributes:
        interpolation: its filter.
        size: float32 (n, 2), whole numbers: the size of the result.
        first: float32 (n, 2), start of the region to resize, with fractions; the filter also reads
            pixels around the region. None if the region is the whole image.
        last: float32 (n, 2), end of the region.
    """

    interpolation: Interpolation
    size: Float32
    first: Float32 | None
    last: Float32 | None

    def region(self, row: int) -> tuple[float, float, float, float] | None:
        """Return the region of one image, (y0, x0, y1, x1); None if it is the whole image."""
        if self.first is None or self.last is None:
            return None
        return (*self.first[row].tolist(), *self.last[row].tolist())


@dataclass(frozen=True)
class Canvas(Part):
    """A canvas to which an image is cropped and padded.

    Attributes:
        start: int32 (n, 2), the canvas's first pixel on the image; may be negative.
        shape: int32 (n, 2).
        fill: RGB value of the padding, 0 to 255.
    """

    start: Int32
    shape: Int32
    fill: Fill


@dataclass(frozen=True)
class Resample(Part):
    """The steps of one frame, in this order.

    Attributes:
        cut: the window to crop.
        resize: the resize.
        canvas: the canvas to crop and pad to.
        mirror: int32 (n,), 1 to flip left to right.
        upturn: int32 (n,), 1 to flip top to bottom.
    """

    cut: Window | None = None
    resize: Resize | None = None
    canvas: Canvas | None = None
    mirror: Int32 | None = None
    upturn: Int32 | None = None

    @property
    def flips_in_resize(self) -> bool:
        """Whether DALI's resize writes its output flipped, which costs nothing.

        The operator for this neither pads afterwards nor resizes a region.
        """
        flips = self.mirror is not None or self.upturn is not None
        resizes = self.resize is not None and self.resize.first is None
        return flips and resizes and self.canvas is None


@dataclass(frozen=True)
class Warp(Part):
    """The warp of one frame.

    Attributes:
        matrix: float32 (n, 3, 3), by the conventions of `transforms.warp_matrices`.
        mask: bool (n,), which images are warped at all.
        sampling: "nearest" or "bilinear".
        fill: RGB value of pixels from outside the image, 0 to 255.
    """

    matrix: Float32
    mask: npt.NDArray[np.bool_]
    sampling: Sampling
    fill: Fill


@dataclass(frozen=True)
class Pixel(Part):
    """A pixel transform and its drawn parameters."""

    transform: PixelTransform
    params: Tree


Stage = Resample | Warp | Pixel


@dataclass(frozen=True)
class Late(Part):
    """A transform of finished images and its drawn parameters."""

    transform: LateTransform
    params: Tree


@dataclass(frozen=True)
class Mixing(Part):
    """A mix, its drawn parameters, and each record's partner: int32 (n,), rows of the batch."""

    transform: MixTransform
    params: Tree
    partner: Int32


@dataclass(frozen=True)
class View(Part):
    """The operations that turn decoded windows into one view.

    Attributes:
        stages: geometry and pixel transforms, in order.
        output: the output format.
        late: transforms of finished images, in order.
        size: (height, width) of the final images.
    """

    stages: tuple[Stage, ...]
    output: OutputFormat
    late: tuple[Late | Mixing, ...]
    size: tuple[int, int]

    @property
    def structure(self) -> View:
        """The view without its arrays: equal for all batches that one graph can run."""
        structure: View = map_arrays(lambda _: ..., self)
        return structure

    @property
    def opening(self) -> tuple[Resample | Pixel, ...]:
        """The first stages, at least one, which an opener runs; the graph runs `rest`.

        A final flip left to right belongs to `rest`: the graph flips for free as it writes the
        output.
        """
        opening: list[Resample | Pixel] = []
        for stage in self.stages:
            if isinstance(stage, Warp):
                break
            if isinstance(stage, Pixel) and not isinstance(stage.transform, Lambda):
                break
            opening.append(stage)
        if isinstance(opening[-1], Resample):
            opening[-1] = replace(opening[-1], mirror=None)
        return tuple(opening)

    @property
    def rest(self) -> View:
        """The stages of this view after its opening."""
        count = len(self.opening)
        last, stages = self.stages[count - 1], self.stages[count:]
        if isinstance(last, Resample):
            stages = (Resample(mirror=last.mirror), *stages)
        return replace(self, stages=stages)


@dataclass(frozen=True)
class Stages(Part):
    """All operations on a batch: one decode, and the views of the decoded images.

    Attributes:
        window: the window to decode of each image.
        views: the views, each with its own stages.
    """

    window: Window
    views: tuple[View, ...]

    @property
    def rest(self) -> tuple[View, ...]:
        """The stages after opening, for each view."""
        return tuple(view.rest for view in self.views)

    @property
    def openings(self) -> tuple[tuple[Resample, ...], ...]:
        """The stages of each view's opening that a graph carries out."""
        return tuple(
            tuple([stage for stage in view.opening if isinstance(stage, Resample)])
            for view in self.views
        )


def map_arrays(function: Callable[[npt.NDArray[Any]], Any], tree: Any) -> Any:
    """Return a part, or anything inside one, with `function(array)` in place of each array.

    Arrays are visited in the same order for equal structures.
    """
    if isinstance(tree, np.ndarray):
        return function(tree)
    if isinstance(tree, dict):
        return {name: map_arrays(function, value) for name, value in tree.items()}
    if isinstance(tree, Part):
        return type(tree)(*[map_arrays(function, value) for value in vars(tree).values()])
    if isinstance(tree, tuple):
        return tuple([map_arrays(function, value) for value in tree])
    return tree


def calls_functions(stages: Stages) -> bool:
    """Return whether any stage is a `Lambda`, which only threads of the host can call."""
    return any(
        isinstance(stage, Pixel) and isinstance(stage.transform, Lambda)
        for view in stages.views
        for stage in view.stages
    )


def check_functions(stages: Stages, *, on_host: bool) -> None:
    """Check that each `Lambda` is in a position where it can be called.

    Args:
        stages: the stages of any batch.
        on_host: whether images are opened on the host.

    Raises:
        ConfigError: a `Lambda` is not in such a position.
    """
    for view in stages.views:
        opened = len(view.opening) if on_host else 0
        for stage in view.stages[opened:]:
            if isinstance(stage, Pixel) and isinstance(stage.transform, Lambda):
                raise ConfigError(stage.transform.misplaced())
