"""Compose lists of transforms to the stages of a batch, with one decode for all views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.plan.stages import Stages, View, Window
from gpufeed.plan.view import ComposedView, Composition, Mix, Partners
from gpufeed.rng import BatchRng
from gpufeed.transforms.base import MixTransform, Transform
from gpufeed.transforms.objects import Objects

__all__ = ["Composed", "bounding", "compose"]


@dataclass(frozen=True)
class Composed:
    """The stages of a batch, and the views that they come from.

    Attributes:
        stages: the stages of all views.
        views: the composed transforms of each view.
        objects: all boxes of the encoded images, as passed to `compose`.
    """

    stages: Stages
    views: tuple[ComposedView, ...]
    objects: Objects | None

    @property
    def structure(self) -> tuple[View, ...]:
        """The stages without their arrays: equal for all batches that one graph can run."""
        return tuple(each.structure for each in self.views)

    @property
    def mix(self) -> Mix | None:
        """Partners and shares; None if no transform mixes."""
        return self.views[0].mix


def compose(
    views: Sequence[Sequence[Transform]],
    record_key: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    boxes: npt.NDArray[np.float64] | None,
    rng: BatchRng,
    partners: Partners,
    objects: Objects | None = None,
    shared: int = 0,
    streams: npt.NDArray[np.int64] | None = None,
    skipped: int = 0,
) -> Composed:
    """Draw the random numbers of a batch, and compose its transforms to stages.

    Args:
        views: lists of transforms, each as `check_transforms` returns it.
        record_key: int64 (n,), n at least 1.
        sizes: int64 (n, 2), height and width of the encoded images after EXIF orientation.
        boxes: float64 (n, 4) of (x0, y0, x1, y1) in pixels, or None.
        rng: the batch's random numbers.
        partners: gives each record's partner for mixes.
        objects: all boxes of the encoded images, m in total; None if there are none.
        shared: how many transforms at the start of the lists are common to all views and draw the
            same numbers.
        streams: int64 (n,), added to the numbers of an image's transforms, so that images of one
            record may draw independently; None for none.
        skipped: how many transforms were left out at the start of each list; the others keep the
            random numbers that they have in the whole list.

    Raises:
        ConfigError: the final images differ in size, or a transform cannot be applied to one of
            them.
    """
    several = len(views) > 1
    if several and any(isinstance(each, MixTransform) for view in views for each in view):
        raise ConfigError(
            "a view mixes images, but all views of a record have one label; use MixUp and CutMix "
            "without Views"
        )
    # The numbers of transforms are unique across views, so views draw independently.
    numbers: list[list[int]] = []
    number = 0
    for transforms in views:
        count = skipped + len(transforms)
        numbers.append([*range(shared), *range(number + shared, number + count)][skipped:])
        number += count - shared
    # Views of the same transforms are composed as one batch, which costs little more than one view.
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, transforms in enumerate(views):
        groups.setdefault(tuple(id(each) for each in transforms), []).append(index)
    composed: list[tuple[list[int], Composition]] = []
    for indices in groups.values():
        copies = len(indices)
        own = np.repeat(np.transpose([numbers[index] for index in indices]), len(sizes), axis=1)
        if streams is not None:
            own += np.tile(streams, copies)
        composition = Composition(np.tile(sizes, (copies, 1)))
        composition.add_all(
            views[indices[0]],
            own,
            np.tile(record_key, copies),
            None if boxes is None else np.tile(boxes, (copies, 1)),
            rng.tiled(copies),
            partners,
            None if objects is None else objects.tiled(copies),
        )
        composed.append((indices, composition))
    window = composed[0][1].window
    if several:
        window = bounding([each.window for _, each in composed], len(sizes))
        for _, composition in composed:
            composition.cut(window)
    by_index: dict[int, ComposedView] = {}
    for indices, composition in composed:
        by_index |= zip(indices, composition.views(len(indices)), strict=True)
    ordered = tuple(by_index[index] for index in range(len(views)))
    return Composed(Stages(window, tuple(each.view for each in ordered)), ordered, objects)


def bounding(windows: Sequence[Window], count: int) -> Window:
    """Return the smallest window around others; each has `count` images, or a multiple of it."""
    start = np.concatenate([each.start.reshape(-1, count, 2) for each in windows]).min(axis=0)
    ends = [(each.start + each.shape).reshape(-1, count, 2) for each in windows]
    return Window(start, np.concatenate(ends).max(axis=0) - start)
