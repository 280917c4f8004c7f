"""Planning a batch: everything about it that is known before an image is read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.rows import PIECE, pieces
from gpufeed.errors import ConfigError, TransformError
from gpufeed.faults.blank import blank_sizes
from gpufeed.order.sampler import Visits, is_fixed
from gpufeed.plan.compose import Composed, compose
from gpufeed.plan.fields import Field, values_of
from gpufeed.plan.lookup import Lookup
from gpufeed.plan.pairs import Pair, with_pairs
from gpufeed.plan.prefix import Prefix, count_prepared, find_prefix
from gpufeed.plan.stages import Stages
from gpufeed.plan.targets import Companions, ViewTargets, follow
from gpufeed.plan.view import Mix, Partners
from gpufeed.records.bounding_box import corners
from gpufeed.rng import BatchRng
from gpufeed.transforms.base import GeometricTransform, MixTransform
from gpufeed.transforms.labels import SoftLabels
from gpufeed.transforms.objects import Objects
from gpufeed.transforms.views import Views, check_views

if TYPE_CHECKING:
    from gpufeed.order.sampler import Sampler
    from gpufeed.order.schedule import Schedule
    from gpufeed.records import Manifest
    from gpufeed.transforms import Frame, Layout, Transform

__all__ = ["BatchPlan", "Planner"]

_SEARCHED = 1 << 16
"""Positions that are searched at a time."""

Substituted = tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]
"""What `Repair` returns: record keys (n,), and which records are blank images (n,)."""


@dataclass(frozen=True)
class BatchPlan:
    """Batch `step`, fully decided; n is its number of records, and m that of their images.

    A record has one image, and another for each `Pair`: image j of the record at place i has the
    place i + j * n.

    Attributes:
        step: the batch's number.
        positions: int64 (n,), positions in the sampler's order.
        record_keys: int64 (n,), rows of the manifest.
        visits: the sampler's, (n,), with the record keys before substitution.
        seed: the sampler's.
        blank: bool (n,), True for blank images.
        epochs: int64 (n,).
        places: int64 (n,), positions within the epoch.
        labels: int32 (n,) or float32 (n, ...), as `Labels.take` returns them; None without labels.
        label_b: the labels of mixed records' partners; None without labels or a mix.
        delivered: bool (n,), False for padding.
        image_keys: int64 (m,), rows of the table of all images: see `with_pairs`.
        sizes: int64 (m, 2), height and width that the encoded images must have.
        stages: the operations on the images.
        mix: partners and shares of mixed records; None if no transform mixes.
        soft_labels: float32 (n, classes); None if no transform makes them.
        targets: boxes and points on each view's images; empty if none are requested.
        fields: by name, each field's values for each view, or once if geometry does not move them;
            once the batch is made, with its further images.
        lookups: for each view, where its pixels come from; empty if there are no further images.
    """

    step: int
    positions: npt.NDArray[np.int64]
    record_keys: npt.NDArray[np.int64]
    visits: Visits
    seed: int
    blank: npt.NDArray[np.bool_]
    epochs: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    labels: npt.NDArray[Any] | None
    label_b: npt.NDArray[Any] | None
    delivered: npt.NDArray[np.bool_]
    image_keys: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    stages: Stages
    mix: Mix | None
    soft_labels: npt.NDArray[np.float32] | None
    targets: tuple[ViewTargets, ...]
    fields: Mapping[str, list[npt.NDArray[Any]]]
    lookups: tuple[Lookup, ...] = ()

    def __len__(self) -> int:
        return len(self.record_keys)

    @property
    def valid(self) -> npt.NDArray[np.bool_]:
        """False for padding and for blank images, bool (n,)."""
        return self.delivered & ~self.blank

    @property
    def images_per_record(self) -> int:
        """The number of images of each record, m / n."""
        return len(self.image_keys) // len(self.record_keys)

    @property
    def blank_images(self) -> npt.NDArray[np.bool_]:
        """Which images are blank, bool (m,)."""
        return np.tile(self.blank, self.images_per_record)


class Planner:
    """Plans batches from their numbers alone.

    `max_pixels` limits the size of blank images, `layout` is for output formats that leave it open,
    `companions` go with boxes and points, `looks_up` says whether records have masks or depth maps,
    and `pairs` are their other images; for the other arguments see `Loader`.

    Attributes:
        images: the images of all records, as `with_pairs` returns them.
        views: a list of transforms for each view, ending in an output format, without those at its
            start that the manifest's images have been through.
        identities: kind and settings of each transform, or of the `Views` that contain them.
        stages: the stages of a few records, with the structure that all batches have.

    Raises:
        ConfigError: the transforms do not turn the manifest's images into images of one size.
    """

    def __init__(
        self,
        manifest: Manifest,
        sampler: Sampler,
        schedule: Schedule,
        transforms: Sequence[Transform] | Views,
        max_pixels: int = 1 << 62,
        targets: Collection[str] = (),
        fields: Sequence[Field] = (),
        layout: Layout = "NCHW",
        companions: Companions | None = None,
        looks_up: bool = False,
        pairs: Sequence[Pair] = (),
    ) -> None:
        checked = check_views(transforms, layout)
        self._skipped = count_prepared(checked.views, manifest.prepared)
        self.views = tuple(view[self._skipped :] for view in checked.views)
        self.identities = checked.identities
        self._shared = checked.shared
        self._sampler = sampler
        self._schedule = schedule
        self.check_batch_size(schedule)
        self._max_pixels = max_pixels
        self._manifest = manifest
        self.images = with_pairs(manifest, [pair.bind(manifest) for pair in pairs])
        self._boxes_follow = "boxes" in targets
        self._looks_up = looks_up
        self._fields = [(field, field.bind(manifest)) for field in fields]
        used = any(
            isinstance(each, GeometricTransform) and each.uses_objects
            for each in itertools.chain(*self.views)
        )
        self._has_objects = manifest.has_objects and (used or self._boxes_follow)
        self._companions = companions or Companions()
        self._points_follow = "points" in targets
        for transform in itertools.chain(*self.views):
            for size in schedule.sizes.values():
                if isinstance(transform, MixTransform) and size % transform.group:
                    raise ConfigError(
                        f"batch_size is {size}; it must be a multiple of {transform.group}, the "
                        f"groups in which {type(transform).__name__} pairs records"
                    )
        self._streams = self._streams_of(pairs) if pairs else np.zeros(1, np.int64)
        self._soft = _soft_labels(self.views, manifest)
        probe = self._probe()
        self.stages, self._structure = probe.stages, probe.structure

    def _streams_of(self, pairs: Sequence[Pair]) -> npt.NDArray[np.int64]:
        """Return for each image of a record what is added to the numbers of its transforms."""
        transforms = [*itertools.chain(*self.views)]
        for each in transforms:
            name = type(each).__name__
            if isinstance(each, GeometricTransform) and each.uses_objects:
                raise ConfigError(
                    f"targets has {pairs[0]}, but {name} crops by boxes, which only the records' "
                    "first images have; leave out one of them"
                )
            if isinstance(each, MixTransform) and any(pair.independent for pair in pairs):
                raise ConfigError(
                    f"targets has a Pair with independent=True, but {name} mixes images by shares "
                    "that all images of a record have in common; leave out one of them"
                )
        numbers = [0, *(pair.independent * (i + 1) for i, pair in enumerate(pairs))]
        return np.array(numbers, np.int64) * (len(transforms) + self._skipped * len(self.views))

    def check_batch_size(self, schedule: Schedule) -> None:
        """Raise `ConfigError` if the global batch of a schedule divides groups of the sampler."""
        shards, group = schedule.shard.shard_count, self._sampler.group
        for size in schedule.sizes.values():
            if size * shards % group:
                raise ConfigError(
                    f"the global batch, {size} x {shards} shard(s), is not a multiple of the "
                    f"sampler's groups of {group}; change batch_size"
                )

    def _probe(self) -> Composed:
        """Compose the most extreme sizes of the manifest, so that what cannot work fails now."""
        keys = np.unique(_extremes(self.images) % len(self._manifest))
        images = self.images_of(keys)
        rng = BatchRng(self._sampler.seed, np.zeros_like(keys), keys, 0)
        rng = rng.tiled(len(self._streams))
        none_blank = np.zeros(len(keys), dtype=np.bool_)
        alone: Partners = lambda _: np.arange(len(images))  # noqa: E731 - shorter than a function
        return self._compose(keys, images, self._sizes(images), none_blank, rng, alone)

    def images_of(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the keys of all images of some records, in the order of `BatchPlan`."""
        firsts = np.arange(0, len(self.images), len(self._manifest))
        return np.add.outer(firsts, keys).ravel()

    def _sizes(self, keys: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.int64]:
        return self.images.sizes(keys).astype(np.int64)

    def prefix(self) -> Prefix:
        """Return what the transforms do to each image in every epoch alike, for all records."""
        one = Objects.of(self._manifest, np.zeros(1, np.int64)) if self._has_objects else None
        boxes = corners(self.images.boxes())
        return find_prefix(self.views, self._sizes(), boxes, one, self._max_pixels)

    def _compose(
        self,
        keys: npt.NDArray[np.int64],
        images: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        blank: npt.NDArray[np.bool_],
        rng: BatchRng,
        partners: Partners,
    ) -> Composed:
        per_record = len(self._streams)
        boxes = corners(self.images.boxes(images))
        objects = None
        if self._has_objects:
            objects = Objects.of(self._manifest, keys, self._companions.of_boxes)
        if blank.any():
            # A blank image has no boxes; the box of its record is the whole image.
            if boxes is not None:
                shown = np.tile(blank, per_record)
                boxes[shown] = np.pad(sizes[shown, ::-1], ((0, 0), (2, 0)))
            if objects is not None:
                objects = objects.chosen(~blank[objects.rows])
        streams = np.repeat(self._streams, len(keys)) if self._streams.any() else None
        return compose(
            *(self.views, np.tile(keys, per_record), sizes, boxes, rng),
            *(partners, objects, self._shared, streams, self._skipped),
        )

    def upcoming(self, step: int) -> npt.NDArray[np.int64]:
        """Return the record keys of the batch after `step`; none at the end of an epoch."""
        if self._schedule.epoch_of(step + 1) > self._schedule.epoch_of(step):
            return np.empty(0, dtype=np.int64)
        positions, _ = self._schedule.positions(step + 1)
        return self._visits(positions).record_key

    def _visits(self, positions: npt.NDArray[np.int64]) -> Visits:
        """Return the sampler's visits at these positions.

        Raises:
            ConfigError: the sampler, such as a user's own, violates its contract.
        """
        visits = self._sampler.visits(positions)
        name, count = type(self._sampler).__name__, len(self._manifest)
        arrays = {each: np.asarray(getattr(visits, each, None)) for each in Visits._fields}
        for each, values in arrays.items():
            if values.shape != positions.shape or values.dtype.kind not in "iu":
                raise ConfigError(
                    f"{name}.visits returned {each} as {values.dtype} {values.shape}; it must "
                    f"return Visits of three int64 arrays {positions.shape}"
                )
        keys = arrays["record_key"]
        outside = (keys < 0) | (keys >= count)
        if outside.any():
            raise ConfigError(
                f"{name}.visits returned the record key {keys[outside][0]}, but there are the "
                f"records 0 to {count - 1}"
            )
        epochs = positions // self._sampler.epoch_size
        if (arrays["epoch"] != epochs).any():
            wrong = int((arrays["epoch"] != epochs).argmax())
            raise ConfigError(
                f"{name}.visits returned epoch {arrays['epoch'][wrong]} for position "
                f"{positions[wrong]}, which lies in epoch {epochs[wrong]} of {name}.epoch_size = "
                f"{self._sampler.epoch_size} positions each"
            )
        return Visits(*(values.astype(np.int64, copy=False) for values in arrays.values()))

    def plan(self, step: int) -> BatchPlan | None:
        """Plan batch `step`; None where this shard gets no record of it.

        Raises:
            IndexError: there is no such batch.
            ConfigError: a transform cannot be applied to one of the images.
            TransformError: a transform raised an error of its own.
        """
        positions, delivered = self._schedule.positions(step)
        return self.plan_positions(step, positions, delivered) if len(positions) else None

    def check_order(self, plan: BatchPlan) -> None:
        """Raise `ConfigError` if the sampler has changed its order of a batch since it was planned.

        gpufeed's own samplers do not change, and cannot all be asked twice.
        """
        if is_fixed(self._sampler):
            return
        visits, name = self._visits(plan.positions), type(self._sampler).__name__
        if self._sampler.seed != plan.seed or not np.array_equal(visits, plan.visits):
            raise ConfigError(
                f"{name} has changed since batch {plan.step} was prepared, ahead of its turn, with "
                "the old order; call loader.seek(loader.step) after each change of the sampler, so "
                "that the prepared batches are made again; if you did not change it, "
                f"{name}.visits must return the same each time"
            )

    def first_visit(self, record_key: int, epoch: int) -> int:
        """Return the position of a record's first visit in an epoch.

        Raises:
            ConfigError: the record does not come in this epoch.
        """
        size = self._sampler.epoch_size
        for start in range(0, size, _SEARCHED):
            positions = epoch * size + np.arange(start, min(start + _SEARCHED, size))
            found = np.flatnonzero(self._visits(positions).record_key == record_key)
            if len(found):
                return int(positions[found[0]])
        raise ConfigError(f"record {record_key} does not come in epoch {epoch} of the sampler")

    @property
    def group(self) -> int:
        """The number of neighbours in the order among which records are mixed; 1 without mixing."""
        transforms = itertools.chain(*self.views)
        return math.lcm(*(each.group for each in transforms if isinstance(each, MixTransform)))

    def plan_row(self, plan: BatchPlan, place: int) -> tuple[BatchPlan, int]:
        """Plan one record of a batch again, substituted or not, with those that are mixed with it.

        Returns:
            The plan, and the record's place in it.
        """
        first = place - int(plan.places[place]) % self.group
        rows = slice(first, first + self.group)
        keys, blank = plan.record_keys[rows], plan.blank[rows]
        positions, delivered = plan.positions[rows], plan.delivered[rows]
        alone = self.plan_positions(plan.step, positions, delivered, lambda _: (keys, blank))
        return alone, place - first

    def plan_visit(self, step: int, position: int) -> tuple[BatchPlan, int]:
        """Plan the record at one position of the order, with those that are mixed with it.

        They are planned as they are in their batch, of which `step` is the number.

        Returns:
            The plan, and the record's place in it.
        """
        group = self.group
        epoch, within = divmod(position, self._sampler.epoch_size)
        first = within - within % group
        last = min(first + group, self._sampler.epoch_size)
        positions = epoch * self._sampler.epoch_size + np.arange(first, last, dtype=np.int64)
        delivered = np.ones(len(positions), dtype=np.bool_)
        return self.plan_positions(step, positions, delivered), within - first

    def plan_positions(
        self,
        step: int,
        positions: npt.NDArray[np.int64],
        delivered: npt.NDArray[np.bool_],
        substitute: Callable[[Visits], Substituted] | None = None,
    ) -> BatchPlan:
        """Plan the records at some positions of the order.

        Args:
            step: the number of their batch.
            positions: int64 (n,).
            delivered: bool (n,), False for padding.
            substitute: replaces bad records of its visits, as `Repair` does.

        Raises:
            ConfigError: a transform cannot be applied to one of the images.
            TransformError: a transform raised an error of its own.
        """
        visits = self._visits(positions)
        keys, blank = visits.record_key, np.zeros(len(positions), dtype=np.bool_)
        if substitute is not None:
            keys, blank = substitute(visits)
        images, count, per_record = self.images_of(keys), len(keys), len(self._streams)
        sizes = self._sizes(images)
        if blank.any():
            shown = np.tile(blank, per_record)
            sizes[shown] = blank_sizes(sizes[shown], self._max_pixels)
        # A substitute draws the numbers of the record it replaces, so it is augmented differently
        # here than elsewhere in the epoch.
        rng = BatchRng(self._sampler.seed, visits.epoch, visits.draw_key, 0).tiled(per_record)
        places = positions % self._sampler.epoch_size

        def partners(group: int) -> npt.NDArray[np.int64]:
            own = _partners(places, delivered, blank, group)
            return np.add.outer(np.arange(per_record) * count, own).ravel()

        try:
            composed = self._compose(keys, images, sizes, blank, rng, partners)
        except TransformError as error:
            error.step = step
            raise
        if composed.structure != self._structure:
            for view, usual in zip(composed.structure, self._structure, strict=True):
                if view != usual:
                    break
            raise ConfigError(
                f"the transforms give batch {step} the size {view.size} (height, width) and "
                f"{len(view.stages)} stages, but other batches {usual.size} and "
                f"{len(usual.stages)}; they must end in one fixed size, such as CenterCrop(224)"
            )
        labels, mix = self._manifest.labels.take(keys), composed.mix
        frames = [view.frame for view in composed.views]
        if per_record > 1:
            frames = [frame.take(slice(count)) for frame in frames]
            mix = mix and Mix(mix.partner[:count], mix.share[:count])
        label_b = soft = None
        if labels is not None and mix is not None:
            label_b = labels[mix.partner]
        if labels is not None and self._soft is not None:
            soft = self._soft.of(labels, label_b, None if mix is None else mix.share)
        return BatchPlan(
            step=step,
            positions=positions,
            record_keys=keys,
            visits=visits,
            seed=self._sampler.seed,
            blank=blank,
            epochs=visits.epoch,
            places=places,
            labels=labels,
            label_b=label_b,
            delivered=delivered,
            image_keys=images,
            sizes=sizes,
            stages=composed.stages,
            mix=mix,
            soft_labels=soft,
            targets=self._follow(composed, frames, keys, blank),
            fields={
                field.name: values_of(field, values, keys, frames, blank)
                for field, values in self._fields
            },
            lookups=tuple(map(Lookup, frames)) if self._looks_up else (),
        )

    def _follow(
        self,
        composed: Composed,
        frames: Sequence[Frame],
        keys: npt.NDArray[np.int64],
        blank: npt.NDArray[np.bool_],
    ) -> tuple[ViewTargets, ...]:
        boxes = composed.objects if self._boxes_follow else None
        points = self._manifest.points(keys) if self._points_follow else None
        if boxes is None and points is None:
            return ()
        return tuple(
            follow(frame, boxes, view.kept, points, blank, self._companions.flipped)
            for view, frame in zip(composed.views, frames, strict=True)
        )


def _partners(
    places: npt.NDArray[np.int64],
    valid: npt.NDArray[np.bool_],
    blank: npt.NDArray[np.bool_],
    group: int,
) -> npt.NDArray[np.int64]:
    """Return each record's partner, a row of the batch: the next record of its group, cyclically.

    Groups begin at multiples of `group` in the epoch, so no group spans two batches. The last group
    of an epoch may be smaller. Padding, blank images, and records whose partner would be blank are
    their own partners.
    """
    rows = np.arange(len(places))
    first = rows - places % group
    following = rows + 1
    within = (following < len(places)) & (following - first < group)
    within[:-1] &= valid[1:]
    partner = np.where(valid, np.where(within, following, first), rows)
    return np.where(blank | blank[partner], rows, partner)


def _extremes(manifest: Manifest) -> npt.NDArray[np.int64]:
    """Return the sorted keys of the images that are most extreme by area, aspect or a side.

    The first of equal ones is taken.
    """

    def rows(sizes: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        height, width = sizes.astype(np.int64).T
        measures = (height * width, width / height, height, width)
        return np.unique([pick for by in measures for pick in (by.argmin(), by.argmax())])

    found = [
        number * PIECE + rows(np.column_stack([side.to_numpy() for side in sides]))
        for number, sides in enumerate(pieces(manifest.frame[["height", "width"]]))
    ]
    keys = np.concatenate(found)
    return keys[rows(manifest.sizes(keys))]


def _soft_labels(views: Sequence[Sequence[Transform]], manifest: Manifest) -> SoftLabels | None:
    """Return the `SoftLabels` of all views, if there is one, after checking all labels."""
    found = [each for each in itertools.chain(*views) if isinstance(each, SoftLabels)]
    if not found:
        return None
    if any(each.identity != found[0].identity for each in found):
        raise ConfigError("there are several SoftLabels with different settings; use one")
    labels = manifest.labels
    label, column = labels.take(np.zeros(1, np.int64)), labels.column
    if label is None or column is None:
        raise ConfigError("SoftLabels is in transforms, but the manifest has no labels")
    if labels.has_classes:
        label = np.array([column.min(), column.max()], np.int32)
    found[0].of(label)
    return found[0]
