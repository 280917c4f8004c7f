"""From lists of transforms to the stages of a batch: one decode, which all views share."""

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

__all__ = ["Composed", "compose"]


@dataclass(frozen=True)
class Composed:
    """A batch's stages, and what they came from.

    Attributes:
        stages: what is done to its images.
        views: what came of each view's transforms.
        objects: all boxes of the encoded images, which it was composed for.
    """

    stages: Stages
    views: tuple[ComposedView, ...]
    objects: Objects | None

    @property
    def structure(self) -> tuple[View, ...]:
        """Everything but the numbers: equal for batches that one graph can carry out."""
        return tuple(each.structure for each in self.views)

    @property
    def mix(self) -> Mix | None:
        """Who was mixed with whom; None where no transform does."""
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
) -> Composed:
    """Draw everything for a batch, and lay it out in stages.

    Args:
        views: lists of transforms, each as `check_transforms` returns it.
        record_key: int64 (n,), n at least 1.
        sizes: int64 (n, 2), height and width of the encoded images, oriented.
        boxes: float64 (n, 4) of (x0, y0, x1, y1) in pixels, or None.
        rng: the batch's numbers.
        partners: whom mixes pair a record with.
        objects: all boxes of each image, m together, as it is encoded; None for none.
        shared: how many of the first transforms are one and the same for all views, and so draw
            the same numbers.

    Raises:
        ConfigError: the images do not all come out in one size, or a transform cannot be applied
            to one of them.
    """
    several = len(views) > 1
    if several and any(isinstance(each, MixTransform) for view in views for each in view):
        raise ConfigError("a view mixes images, but views have one label; mix in single views")
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
    composed: list[tuple[list[int], Composition]] = []
    for places in alike.values():
        copies = len(places)
        own = np.repeat(np.transpose([numbers[place] for place in places]), len(sizes), axis=1)
        composition = Composition(np.tile(sizes, (copies, 1)))
        composition.add_all(
            views[places[0]],
            own,
            np.tile(record_key, copies),
            None if boxes is None else np.tile(boxes, (copies, 1)),
            rng.tiled(copies),
            partners,
            None if objects is None else objects.tiled(copies),
        )
        composed.append((places, composition))
    window = composed[0][1].window
    if several:
        window = _around([each.window for _, each in composed], len(sizes))
        for _, composition in composed:
            composition.cut(window)
    found: dict[int, ComposedView] = {}
    for places, composition in composed:
        found |= zip(places, composition.views(len(places)), strict=True)
    made = tuple(found[place] for place in range(len(views)))
    return Composed(Stages(window, tuple(each.view for each in made)), made, objects)


def _around(windows: Sequence[Window], count: int) -> Window:
    """Return the least window around others, of `count` images or a multiple of it each."""
    start = np.concatenate([each.start.reshape(-1, count, 2) for each in windows]).min(axis=0)
    ends = [(each.start + each.shape).reshape(-1, count, 2) for each in windows]
    return Window(start, np.concatenate(ends).max(axis=0) - start)
