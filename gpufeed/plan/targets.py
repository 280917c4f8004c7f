"""Boxes and points of a batch: their coordinates on its images, and their form in the batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.plan.fields import Field
from gpufeed.records.annotations import check_box_format
from gpufeed.transforms.objects import Objects

if TYPE_CHECKING:
    from gpufeed.adapters import Adapter
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.records import Manifest
    from gpufeed.transforms import Frame, Transform

__all__ = ["CollateFn", "Points", "Targets", "ViewTargets", "follow"]

CollateFn = Literal["pad"] | Callable[[list[dict[str, Any]]], Any]

_KINDS = ("boxes", "points")
_MIN_SIDE = 1.0
"""Pixels; smaller boxes are dropped, as by torchvision's SanitizeBoundingBoxes."""


@dataclass(frozen=True)
class Points:
    """k points of each of n images.

    Attributes:
        places: float32 (n, k, 2) of (x, y) in pixels.
        visible: bool (n, k), which of them are on the image.
    """

    places: npt.NDArray[np.float32]
    visible: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ViewTargets:
    """Targets on one view's images; None if they are not requested.

    Attributes:
        objects: the remaining boxes, with their labels.
        points: the points.
    """

    objects: Objects | None
    points: Points | None


def follow(
    frame: Frame,
    objects: Objects | None,
    kept: npt.NDArray[np.bool_],
    points: npt.NDArray[np.float64] | None,
    blank: npt.NDArray[np.bool_],
) -> ViewTargets:
    """Map targets from the encoded images to the images of a view.

    Args:
        frame: the view's last frame.
        objects: the m boxes of all images; None if they are not requested.
        kept: bool (m,), which boxes no transform dropped.
        points: float64 (n, k, 3) of x, y and visibility; None if they are not requested.
        blank: bool (n,), which images are blank.
    """
    if objects is not None:
        objects = objects.followed(frame)
        sides = objects.boxes[:, 2:] - objects.boxes[:, :2]
        objects = objects.chosen(kept & (sides >= _MIN_SIDE).all(axis=1))
    if points is None:
        return ViewTargets(objects, None)
    places = points[..., :2]
    visible = (points[..., 2] > 0) & frame.shows(places) & ~blank[:, None]
    moved = frame.map_points(places).astype(np.float32)
    return ViewTargets(objects, Points(moved, visible))


class Targets:
    """Turns the targets of batches into arrays; see `Loader` for the arguments.

    Attributes:
        collate_fn: the function `collate_fn`; None if it is none.
        moving: keys whose values are lists, one for each view, if there are several views.

    Raises:
        ConfigError: an argument is out of range, contradicts another, or requests targets that the
            manifest does not have.
    """

    def __init__(
        self,
        manifest: Manifest,
        asked: Collection[str | Field],
        box_format: str,
        max_boxes: int | None,
        collate_fn: CollateFn | None,
        transforms: Iterable[Transform],
    ) -> None:
        known = not isinstance(asked, str)
        if not known or any(each not in _KINDS for each in asked if not isinstance(each, Field)):
            raise ConfigError(
                f'targets is {short(asked)}; it may hold "boxes", "points" and instances of Field'
            )
        fields = [each.name for each in asked if isinstance(each, Field) and each.moves]
        kinds = [each for each in asked if isinstance(each, str)]
        moving = [*kinds, *fields]
        for transform in transforms:
            if moving and transform.loses_targets:
                raise ConfigError(
                    f"targets has {moving}, but {type(transform).__name__} moves or mixes pixels "
                    "in ways that they cannot follow; leave out one of them"
                )
        self._format = check_box_format(box_format)
        pads = isinstance(collate_fn, str)
        if collate_fn is not None and collate_fn != "pad" and not callable(collate_fn):
            raise ConfigError(
                f'collate_fn is {short(collate_fn)}; it must be None, "pad" or callable'
            )
        if pads and "boxes" not in kinds:
            raise ConfigError('collate_fn is "pad", which pads boxes; ask for targets=("boxes",)')
        self.collate_fn = None if isinstance(collate_fn, str) else collate_fn
        self.moving = ("boxes", "box_labels", "box_valid", "points", "point_visible", *fields)
        if "boxes" in kinds and not manifest.has_objects:
            raise ConfigError(
                'targets has "boxes", but the manifest has none; read_table(boxes=...) reads '
                "them, as do columns box_x, box_y, box_width and box_height"
            )
        if "points" in kinds and not manifest.has_points:
            raise ConfigError(
                'targets has "points", but the manifest has none; read_table(points=...) reads '
                "them, read_nabirds where the folder has parts/part_locs.txt"
            )
        self._max_boxes: int | None = None
        if max_boxes is not None:
            if not pads:
                raise ConfigError(f'max_boxes is {short(max_boxes)}; it goes with collate_fn="pad"')
            if isinstance(max_boxes, bool) or not isinstance(max_boxes, int) or max_boxes < 1:
                raise ConfigError(
                    f"max_boxes is {short(max_boxes)}; it must be an integer of 1 or more"
                )
            self._max_boxes = max_boxes
        elif pads:
            self._max_boxes = manifest.most_objects()

    def arrays(self, plan: BatchPlan, adapter: Adapter) -> dict[str, Any]:
        """Return the targets of a batch by name, as lists if there are several views."""
        made: dict[str, Any] = {}
        for name, views in plan.fields.items():
            arrays = [
                adapter.labels(values) if values.dtype == np.int32 else adapter.arrays(values)
                for values in views
            ]
            made[name] = arrays if len(arrays) > 1 else arrays[0]
        followed = [self._view(targets, adapter) for targets in plan.targets]
        if len(followed) == 1:
            made |= followed[0]
        elif followed:
            made |= {name: [view[name] for view in followed] for name in followed[0]}
        return made

    def _view(self, targets: ViewTargets, adapter: Adapter) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if targets.objects is not None:
            made |= self._boxes(targets.objects, adapter)
        if targets.points is not None:
            made["points"] = adapter.arrays(targets.points.places)
            made["point_visible"] = adapter.arrays(targets.points.visible)
        return made

    def _boxes(self, objects: Objects, adapter: Adapter) -> dict[str, Any]:
        boxes = objects.boxes
        if self._format == "xywh":
            boxes = np.hstack([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]])
        boxes = boxes.astype(np.float32)
        if self._max_boxes is None:
            return {
                "boxes": adapter.pieces(boxes, objects.offsets),
                "box_labels": adapter.pieces(objects.labels, objects.offsets),
            }
        counts = np.minimum(objects.counts, self._max_boxes)
        valid = np.arange(self._max_boxes) < counts[:, None]
        first = np.arange(len(boxes)) - objects.offsets[objects.rows] < self._max_boxes
        padded = np.zeros((*valid.shape, 4), np.float32)
        labels = np.zeros(valid.shape, np.int32)
        padded[valid], labels[valid] = boxes[first], objects.labels[first]
        return {
            "boxes": adapter.arrays(padded),
            "box_labels": adapter.labels(labels),
            "box_valid": adapter.arrays(valid),
        }
