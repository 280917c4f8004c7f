"""Boxes and points of a batch: their coordinates on its images, and their form in the batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from gpufeed._util.rows import pieces, take_rows
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.plan.fields import BATCH_KEYS, Field, narrowed
from gpufeed.plan.image_targets import ImageTarget
from gpufeed.plan.pairs import Pair
from gpufeed.records.annotations import BOX_POINTS, check_box_format
from gpufeed.records.lists import flatten
from gpufeed.transforms.objects import Objects

if TYPE_CHECKING:
    from gpufeed.adapters import Adapter
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.records import Manifest
    from gpufeed.transforms import Frame, Transform

__all__ = ["CollateFn", "Companions", "Points", "Targets", "ViewTargets", "follow"]

CollateFn = Literal["pad"] | Callable[[list[dict[str, Any]]], Any]

Lookup = Callable[["npt.NDArray[np.int64]"], "npt.NDArray[Any]"]

_KINDS = ("boxes", "box_points", "points")
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


@dataclass(frozen=True)
class Companions:
    """What goes with boxes and points.

    Attributes:
        of_boxes: by name, functions from record keys to arrays (m, ...) with a row for each box.
        flipped: int64 (k,), the point whose place each point takes in a flipped image; None if
            they keep their own.
    """

    of_boxes: Mapping[str, Lookup] = field(default_factory=dict)
    flipped: npt.NDArray[np.int64] | None = None

    @staticmethod
    def of(
        manifest: Manifest,
        asked: Collection[str],
        box_columns: Sequence[str],
        flip_pairs: Sequence[tuple[str | int, str | int]],
        *,
        wide: bool,
    ) -> Companions:
        """Return what `Loader` was asked for; its documentation has the arguments.

        With `wide`, arrays may have int64.

        Raises:
            ConfigError: the manifest does not have it, or an argument contradicts another.
        """
        of_boxes: dict[str, Lookup] = {}
        for name, given in ((BOX_POINTS, BOX_POINTS in asked), ("box_columns", bool(box_columns))):
            if given and "boxes" not in asked:
                raise ConfigError(f'{name} goes with boxes; ask for targets=("boxes", ...)')
        if BOX_POINTS in asked:
            if manifest.box_points([0]) is None:
                raise ConfigError(
                    'targets has "box_points", but the manifest has none; '
                    "read_table(box_points=...) reads them"
                )
            of_boxes[BOX_POINTS] = lambda keys: np.asarray(manifest.box_points(keys))
        if isinstance(box_columns, str):
            raise ConfigError(f"box_columns is {short(box_columns)}; it must be a list of names")
        for name in box_columns:
            if name in BATCH_KEYS or name in of_boxes:
                raise ConfigError(f"box_columns has {short(name)}, which a batch has already")
            of_boxes[name] = _values_of_boxes(manifest, name, wide=wide)
        return Companions(of_boxes, _flipped(manifest, asked, flip_pairs))


def _values_of_boxes(manifest: Manifest, name: str, *, wide: bool) -> Lookup:
    """Return a function that looks up the values in a column of lists, one for each box: (m,)."""
    if name not in manifest.box_columns:
        raise ConfigError(
            f"box_columns has {short(name)}, but those of the manifest are "
            f"{[*manifest.box_columns]}; pass box_columns=[{short(name)}] to read_table, or to "
            "Manifest, so that it loses the values of boxes that are dropped"
        )
    column: Any = manifest.frame[name]
    dtypes = []
    for piece in pieces(column):
        values = flatten(piece)[0]
        kind = values.dtype.kind
        if not len(values) and kind not in "biuf":
            values = np.zeros(0)  # a column of empty lists has any dtype
        elif kind not in "biuf" or (kind == "f" and not column.dtype.inner.is_float()):
            raise ConfigError(
                f"box_columns has {short(name)}, a column of {column.dtype}; it must hold numbers "
                "or booleans, without nulls"
            )
        dtypes.append(narrowed(values, f"column {name!r} has", wide=wide).dtype)
    dtype = np.result_type(*dtypes)
    return lambda keys: flatten(take_rows(column, keys))[0].astype(dtype)


def _flipped(
    manifest: Manifest, asked: Collection[str], pairs: Sequence[tuple[str | int, str | int]]
) -> npt.NDArray[np.int64] | None:
    """Return the point that each point is in a flipped image; None without pairs."""
    if not pairs:
        return None
    first = {"points": manifest.points([0]), BOX_POINTS: manifest.box_points([0])}
    counts = {
        name: points.shape[1]
        for name, points in first.items()
        if name in asked and points is not None
    }
    if len(set(counts.values())) != 1:
        raise ConfigError(
            "flip_pairs needs points in targets, and as many of each kind; there are "
            f"{counts or 'none'}"
        )
    names, count = manifest.point_names, max(counts.values())
    order = np.arange(count)
    try:
        both = [[names.index(each) if isinstance(each, str) else each for each in p] for p in pairs]
        left, right = np.array(both, dtype=np.int64).reshape(-1, 2).T
        order[left], order[right] = right, left
        good = len(np.unique([left, right])) == 2 * len(both) and min(map(min, both)) >= 0
    except (ValueError, TypeError, IndexError):
        good = False
    if not good:
        raise ConfigError(
            f"flip_pairs is {short(pairs)}; it must hold pairs of points, each in one pair, as "
            f"numbers below {count} or names{f' of {list(names)}' if names else ''}"
        )
    return order


def follow(
    frame: Frame,
    objects: Objects | None,
    kept: npt.NDArray[np.bool_],
    points: npt.NDArray[np.float64] | None,
    blank: npt.NDArray[np.bool_],
    flipped: npt.NDArray[np.int64] | None = None,
) -> ViewTargets:
    """Map targets from the encoded images to the images of a view.

    Args:
        frame: the view's last frame.
        objects: the m boxes of all images; None if they are not requested.
        kept: bool (m,), which boxes no transform dropped.
        points: float64 (n, k, 3) of x, y and visibility; None if they are not requested.
        blank: bool (n,), which images are blank.
        flipped: as `Companions` has it.
    """
    if objects is not None:
        objects = objects.followed(frame)
        sides = objects.boxes[:, 2:] - objects.boxes[:, :2]
        objects = objects.chosen(kept & (sides >= _MIN_SIDE).all(axis=1))
        if BOX_POINTS in objects.others:
            others = dict(objects.others)
            moved = _moved(frame.take(objects.rows), others.pop(BOX_POINTS), flipped)
            both = {BOX_POINTS: moved.places, "box_point_visible": moved.visible}
            objects = replace(objects, others=both | others)
    if points is None:
        return ViewTargets(objects, None)
    followed = _moved(frame, points, flipped)
    return ViewTargets(objects, replace(followed, visible=followed.visible & ~blank[:, None]))


def _moved(
    frame: Frame, points: npt.NDArray[np.float64], flipped: npt.NDArray[np.int64] | None
) -> Points:
    """Return points (n, k, 3) on the canvases of a frame of n images."""
    if flipped is not None:
        points = np.where(frame.reversed[:, None, None], points[:, flipped], points)
    places = points[..., :2]
    visible = (points[..., 2] > 0) & frame.shows(places)
    return Points(frame.map_points(places).astype(np.float32), visible)


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
        asked: Collection[str | Field | ImageTarget | Pair],
        box_format: str,
        max_boxes: int | None,
        collate_fn: CollateFn | None,
        transforms: Iterable[Transform],
        box_columns: Collection[str] = (),
    ) -> None:
        known = not isinstance(asked, str)
        if not known or any(
            each not in _KINDS for each in asked if not isinstance(each, Field | ImageTarget | Pair)
        ):
            raise ConfigError(
                f'targets is {short(asked)}; it may hold "boxes", "box_points", "points" and '
                "instances of Mask, Depth, Pair and Field"
            )
        fields = [each.name for each in asked if not isinstance(each, str) and each.moves]
        kinds = [each for each in asked if isinstance(each, str)]
        moving = [*kinds, *fields]
        for each in asked:
            if isinstance(each, Field) and each.name in box_columns:
                raise ConfigError(f"box_columns has {short(each.name)}, the name of a field")
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
        self.moving = (
            *("boxes", "box_labels", "box_valid", "box_points", "box_point_visible"),
            *("points", "point_visible", *box_columns, *fields),
        )
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
            arrays = [adapter.arrays(values) for values in views]
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
        arrays = {"boxes": boxes.astype(np.float32), "box_labels": objects.labels}
        arrays |= objects.others
        if self._max_boxes is None:
            return {
                name: adapter.pieces(values, objects.offsets) for name, values in arrays.items()
            }
        counts = np.minimum(objects.counts, self._max_boxes)
        valid = np.arange(self._max_boxes) < counts[:, None]
        first = np.arange(len(boxes)) - objects.offsets[objects.rows] < self._max_boxes
        made = {}
        for name, values in arrays.items():
            padded = np.zeros((*valid.shape, *values.shape[1:]), values.dtype)
            padded[valid] = values[first]
            made[name] = adapter.arrays(padded)
        return made | {"box_valid": adapter.arrays(valid)}
