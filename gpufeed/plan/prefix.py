"""The prefix of a list of transforms: what they do to an image in every epoch alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.plan.compose import bounding
from gpufeed.plan.resample import resample
from gpufeed.plan.stages import Resize, Stages, Window
from gpufeed.plan.view import Composition
from gpufeed.rng import BatchRng
from gpufeed.transforms.base import GeometricTransform, Transform
from gpufeed.transforms.frame import Frame
from gpufeed.transforms.objects import Objects

__all__ = ["Prefix", "count_prepared", "find_prefix", "place"]

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Prefix:
    """What all visits of a record have in common, for n records.

    A resize of which each visit shows another part is not in common: that part is computed alone,
    which rounds otherwise than cutting it out of the whole.

    Attributes:
        window: the window of each image that holds the windows of all visits; equal to them if
            there is a resize.
        resize: the first resize; None if it is not in common, or there is none.
        sizes: int64 (n, 2), height and width of the results; 0 for images that are too large.
    """

    window: Window
    resize: Resize | None
    sizes: Int64

    def after(self, stages: Stages) -> Stages:
        """Return what is left of a batch's stages: all but the resize, if it is in common.

        The window is then the whole of what is kept.
        """
        if self.resize is None:
            return stages
        (view,) = stages.views
        first: Any = view.stages[0]  # a view always begins with a Resample
        window = Window(np.zeros_like(stages.window.start), first.resize.size.astype(np.int32))
        left = replace(first, resize=None), *view.stages[1:]
        return Stages(window, (replace(view, stages=left),))

    def in_graph(self, stages: Stages) -> Prefix:
        """Return what the visits have in common where the DALI graph opens images.

        Where it flips as it resizes, which rounds otherwise than one after the other, the resize is
        not in common.

        Args:
            stages: the stages of any batch.
        """
        if self.resize is None or not stages.openings[0][0].flips_in_resize:
            return self
        return Prefix(self.window, None, np.where(self.sizes > 0, self.window.shape, 0))


def find_prefix(
    views: Sequence[Sequence[Transform]],
    sizes: Int64,
    boxes: npt.NDArray[np.float64] | None,
    one: Objects | None,
    max_pixels: int,
) -> Prefix:
    """Return the prefix of all records of a manifest.

    Args:
        views: as for `compose`.
        sizes: int64 (n, 2), height and width of the encoded images.
        boxes: float64 (n, 4) of (x0, y0, x1, y1) in pixels, or None.
        one: all boxes of the first record; None if there are none.
        max_pixels: the most pixels of an image; larger ones are never decoded.
    """
    small = sizes.prod(axis=1, keepdims=True) <= max_pixels
    different = {tuple(id(each) for each in view): view for view in views}.values()
    steady = [_steady(view, sizes, boxes) for view in different]
    if len(views) == 1:
        ((frame, count),) = steady
        if _is_settled(views[0], count, sizes, boxes, one):
            window, stage = resample(frame, cut=False)
            kept = window.shape if stage.resize is None else stage.resize.size
            return Prefix(window, stage.resize, small * kept.astype(np.int64))
    window = bounding([_whole(frame) for frame, _ in steady], len(sizes))
    return Prefix(window, None, small * window.shape.astype(np.int64))


def count_prepared(
    views: Sequence[Sequence[Transform]], prepared: Sequence[Mapping[str, object]]
) -> int:
    """Return how many transforms at the start of the lists a manifest's images have been through.

    It is all of them or none.

    Args:
        views: as for `compose`.
        prepared: the identities of the transforms that made the images, in their order.
    """
    count = len(prepared)
    begin = all([each.identity for each in view[:count]] == [*prepared] for view in views)
    return count if begin else 0


def place(
    transforms: Sequence[Transform], sizes: Int64, boxes: npt.NDArray[np.float64] | None
) -> Frame:
    """Return the last frame of transforms that do the same in every epoch.

    Args:
        transforms: geometric transforms.
        sizes: as for `find_prefix`.
        boxes: as for `find_prefix`.

    Raises:
        ConfigError: a transform draws random numbers, changes pixel values, warps, or reads or
            drops boxes of lists.
    """
    composition, rng = Composition(sizes), _Watched(len(sizes))
    for index, transform in enumerate(transforms):
        problem = "is not a geometric transform"
        if isinstance(transform, GeometricTransform):
            problem = "reads or drops boxes" if transform.uses_objects else ""
        if not problem:
            _add(composition, [transform], boxes, rng, None)
            problem = "warps images" if composition.frame.warped is not None else ""
            problem = "draws random numbers" if rng.draws else problem
        if problem:
            raise ConfigError(
                f"transforms[{index}] is {type(transform).__name__}, which {problem}; images are "
                "prepared by crops, resizes and padding that are the same in every epoch, and the "
                "loader does the rest"
            )
    return composition.frame


def _whole(frame: Frame) -> Window:
    return Window(frame.source.astype(np.int32), frame.extent.astype(np.int32))


class _Watched(BatchRng):
    """Random numbers that note whether any was drawn."""

    def __init__(self, count: int) -> None:
        zeros = np.zeros(count, dtype=np.int64)
        super().__init__(0, zeros, zeros, 0)
        self.draws: list[int] = []  # one list for all that `spawn` and `rows` return

    def _words(self, count: int) -> Any:
        self.draws.append(count)
        return super()._words(count)


def _steady(
    transforms: Sequence[Transform], sizes: Int64, boxes: npt.NDArray[np.float64] | None
) -> tuple[Frame, int]:
    """Return the first frame after the leading transforms that draw nothing, and their number."""
    composition, rng = Composition(sizes), _Watched(len(sizes))
    for count, transform in enumerate(transforms):
        frame = composition.frame
        if not isinstance(transform, GeometricTransform) or transform.uses_objects:
            return frame, count
        _add(composition, [transform], boxes, rng, None)
        if rng.draws or composition.frame.previous is not None:
            return frame, count
    return composition.frame, len(transforms)


def _is_settled(
    transforms: Sequence[Transform],
    count: int,
    sizes: Int64,
    boxes: npt.NDArray[np.float64] | None,
    objects: Objects | None,
) -> bool:
    """Return whether the transforms after the first `count` leave the first frame's resize alone.

    They are applied to the first record. Methods of a frame keep the arrays that they do not
    change, and which methods are called does not depend on the numbers.
    """
    zero = np.zeros(1, np.int64)
    composition, rng = Composition(sizes[:1]), BatchRng(0, zero, zero, 0)
    boxes = None if boxes is None else boxes[:1]
    _add(composition, transforms[:count], boxes, rng, objects)
    before = composition.frame
    _add(composition, transforms[count:], boxes, rng, objects)
    return all(
        getattr(composition.first, name) is getattr(before, name)
        for name in ("source", "extent", "scaled", "shown", "shown_end")
    )


def _add(
    composition: Composition,
    transforms: Sequence[Transform],
    boxes: npt.NDArray[np.float64] | None,
    rng: BatchRng,
    objects: Objects | None,
) -> None:
    keys = np.arange(len(rng))
    numbers = np.repeat(np.arange(len(transforms))[:, None], len(rng), axis=1)
    composition.add_all(transforms, numbers, keys, boxes, rng, lambda _: keys, objects)
