"""From lists of transforms to the stages of a batch: one decode, which all views share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.plan.stages import Resample, Stages, View, Window
from gpufeed.plan.view import ComposedView, Composition, Mix, Partners
from gpufeed.rng import BatchRng
from gpufeed.transforms.base import MixTransform, Transform
from gpufeed.transforms.frame import Frame
from gpufeed.transforms.objects import Objects

__all__ = ["Composed", "compose"]


@dataclass(frozen=True)
class Composed:
    """A batch's stages, and what moves its targets and labels.

    Attributes:
        stages: what is done to its images.
        frames: each view's last.
        kept: for each view a bool (m,), False for boxes that a transform dropped.
        mix: who was mixed with whom; None where no transform does.
    """

    stages: Stages
    frames: tuple[Frame, ...]
    kept: tuple[npt.NDArray[np.bool_], ...]
    mix: Mix | None


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
    found: dict[int, ComposedView] = {}
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
        found |= zip(places, composition.views(copies), strict=True)
    made = [found[place] for place in range(len(views))]
    return Composed(
        _share_decode(made) if several else Stages(made[0].window, (made[0].view,)),
        tuple(each.frame for each in made),
        tuple(each.kept for each in made),
        made[0].mix,
    )


def _share_decode(made: Sequence[ComposedView]) -> Stages:
    """Decode the least window that holds all views' windows, and cut these out of it."""
    start = np.min([each.window.start for each in made], axis=0)
    end = np.max([each.window.start + each.window.shape for each in made], axis=0)
    return Stages(
        Window(start, end - start),
        tuple(_cut(each.view, each.window.start - start, each.window.shape) for each in made),
    )


def _cut(view: View, start: npt.NDArray[np.int32], shape: npt.NDArray[np.int32]) -> View:
    first, *others = view.stages
    if not isinstance(first, Resample):
        raise AssertionError("a view begins with what it reads")
    return replace(view, stages=(replace(first, cut=Window(start, shape)), *others))
