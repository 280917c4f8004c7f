"""What is done to the images of a batch: typed stages, each with its arrays.

Row i of an array is for record i. Sizes and places are (y, x) in pixels. An optional part is None
where no record of any batch has it. Which calls the transforms made decides everything but the
numbers in the arrays, so the graph is built once, from the stages of any batch.
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
    "check_functions",
    "map_arrays",
]

Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]


class Part:
    """A dataclass of arrays, and of other parts."""


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
        size: float32 (n, 2), whole numbers: the new size of what is shown.
        first: float32 (n, 2), where the region that is shown begins, with fractions; the filter
            reads what lies around it. None where all is shown.
        last: float32 (n, 2), where it ends.
    """

    interpolation: Interpolation
    size: Float32
    first: Float32 | None
    last: Float32 | None


@dataclass(frozen=True)
class Canvas(Part):
    """A canvas that an image is cut to and padded to.

    Attributes:
        start: int32 (n, 2), where it begins on the image; may be negative.
        shape: int32 (n, 2).
        fill: levels of the padding.
    """

    start: Int32
    shape: Int32
    fill: Fill


@dataclass(frozen=True)
class Resample(Part):
    """One frame, in this order.

    Attributes:
        cut: the window that is cut out.
        resize: the resize.
        canvas: what the image is laid on.
        mirror: int32 (n,), 1 where the image is flipped left to right.
        upturn: int32 (n,), 1 where it is flipped top to bottom.
    """

    cut: Window | None = None
    resize: Resize | None = None
    canvas: Canvas | None = None
    mirror: Int32 | None = None
    upturn: Int32 | None = None


@dataclass(frozen=True)
class Warp(Part):
    """One frame's warp.

    Attributes:
        matrix: float32 (n, 3, 3), as `transforms.warp_matrices` has it.
        mask: bool (n,), which images are warped at all.
        sampling: "nearest" or "bilinear".
        fill: levels of what comes from outside of the image.
    """

    matrix: Float32
    mask: npt.NDArray[np.bool_]
    sampling: Sampling
    fill: Fill


@dataclass(frozen=True)
class Pixel(Part):
    """A pixel transform, and what it drew."""

    transform: PixelTransform
    params: Tree


Stage = Resample | Warp | Pixel


@dataclass(frozen=True)
class Late(Part):
    """A transform of what the output format gives, and what it drew."""

    transform: LateTransform
    params: Tree


@dataclass(frozen=True)
class Mixing(Part):
    """A mix, what it drew, and each record's partner: int32 (n,), rows of the batch."""

    transform: MixTransform
    params: Tree
    partner: Int32


@dataclass(frozen=True)
class View(Part):
    """What becomes of a decoded window.

    Attributes:
        stages: in order.
        output: what becomes of levels.
        late: what is done after that.
        size: (height, width) of every image at the end.
    """

    stages: tuple[Stage, ...]
    output: OutputFormat
    late: tuple[Late | Mixing, ...]
    size: tuple[int, int]

    @property
    def structure(self) -> View:
        """Everything but the numbers: equal for batches that one graph can carry out."""
        structure: View = map_arrays(lambda _: ..., self)
        return structure

    @property
    def opening(self) -> tuple[Resample | Pixel, ...]:
        """The first stages, at least one, which an opener carries out; the graph does `rest`.

        A last flip left to right is left to `rest`, where it costs nothing: the graph does it as it
        writes the output.
        """
        found: list[Resample | Pixel] = []
        for stage in self.stages:
            if isinstance(stage, Warp):
                break
            if isinstance(stage, Pixel) and not isinstance(stage.transform, Lambda):
                break
            found.append(stage)
        if isinstance(found[-1], Resample):
            found[-1] = replace(found[-1], mirror=None)
        return tuple(found)

    @property
    def rest(self) -> View:
        """What is left of this view after its opening."""
        count = len(self.opening)
        last, stages = self.stages[count - 1], self.stages[count:]
        if isinstance(last, Resample):
            stages = (Resample(mirror=last.mirror), *stages)
        return replace(self, stages=stages)


@dataclass(frozen=True)
class Stages(Part):
    """All that is done to a batch: one decode, and the views of what is decoded.

    Attributes:
        window: what is decoded of each image.
        views: each with stages of its own.
    """

    window: Window
    views: tuple[View, ...]

    @property
    def rest(self) -> tuple[View, ...]:
        """What is left to do to opened images, view by view."""
        return tuple(view.rest for view in self.views)


def map_arrays(function: Callable[[npt.NDArray[Any]], Any], tree: Any) -> Any:
    """Return a part, or what is in one, with `function(array)` in place of each array.

    Arrays of equal structures come in one order.
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


def check_functions(stages: Stages, *, on_host: bool) -> None:
    """Check that each `Lambda` stands where it can be called.

    Args:
        stages: of any batch.
        on_host: whether the host opens the images.

    Raises:
        ConfigError: one does not.
    """
    for view in stages.views:
        opened = len(view.opening) if on_host else 0
        for stage in view.stages[opened:]:
            if isinstance(stage, Pixel) and isinstance(stage.transform, Lambda):
                raise ConfigError(stage.transform.misplaced())
