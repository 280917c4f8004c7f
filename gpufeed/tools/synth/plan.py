"""Everything about the synthetic set but its pixels, drawn after the real set's figures.

The tables are quantiles measured on NABirds; drawing is looking one up at a uniform number.
"""

from __future__ import annotations

import dataclasses
import uuid

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.tools.synth.draws import Draws, Stream
from gpufeed.tools.synth.taxonomy import MAX_CLASSES, Taxonomy, build_taxonomy

__all__ = ["MAX_SIDE", "QUIRKS_FROM", "Plan", "plan_nabirds"]

MAX_SIDE = 1024
MIN_MAX_SIDE = 64
QUIRKS_FROM = 32
"""Sets with at least this many images have each of the real set's oddities at least once."""

_LEVELS = (0.0, 0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 1.0)
_IMAGES_PER_CLASS = (13, 22, 42, 60, 75, 91, 108, 116, 118, 120, 120)
# Sizes: how often the long side is the maximum, and what it is elsewhere.
_FULL_SIDE = 0.667
_LONG_SIDE = (98.0, 442.0, 517.0, 600.0, 640.0, 800.0, 800.0, 909.0, 1000.0, 1020.0, 1023.0)
_LANDSCAPE, _SQUARE = 0.8137, 0.0155
_SHORT_OVER_LONG_LANDSCAPE = (0.30, 0.556, 0.622, 0.655, 0.667, 0.698, 0.75, 0.80, 0.836, 0.952, 1)
_SHORT_OVER_LONG_PORTRAIT = (0.45, 0.609, 0.665, 0.667, 0.710, 0.773, 0.807, 0.90, 0.948, 0.989, 1)
# Boxes: share of the picture's area, and width over height in a picture of 4:3.
_BOX_SHARE = (0.012, 0.029, 0.064, 0.097, 0.173, 0.283, 0.415, 0.550, 0.634, 0.740, 0.80)
_BOX_ASPECT = (0.50, 0.55, 0.62, 0.68, 0.86, 1.16, 1.54, 1.90, 2.10, 2.30, 2.40)

_PNG_SIZE = (615, 399)
_ODD_NAMES = (
    "Synthetic Photographer {}, A. & B.",
    '"Synth" Synthetic Photographer {}, photos.example',
    "Synthetic Photographers {} & Co",
)
_ONE_IN_OVERRUNS = 240
_ONE_IN_UPPER_CASE = 1400


@dataclasses.dataclass(frozen=True)
class Plan:
    """The set on paper; all columns are in the order of the files, sorted by `uuids`.

    Attributes:
        seed: the seed all of it, and the pictures, are drawn from.
        taxonomy: the classes, their names and their tree.
        numbers: the image's number before sorting; the picture is drawn from it.
        uuids: lower-case, with dashes.
        paths: below `images/`.
        labels: places in `taxonomy.class_ids`, not ids.
        sizes: width and height in pixels, (N, 2).
        subjects: x, y, width, height of what is drawn, within the picture, (N, 4).
        boxes: the same as the file gives it: a few overrun their picture, (N, 4).
        is_training: which half.
        photographers: invented.
        is_png: pictures that are PNGs with transparency, whatever their name says.
    """

    seed: int
    taxonomy: Taxonomy
    numbers: npt.NDArray[np.int64]
    uuids: tuple[str, ...]
    paths: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    subjects: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.int64]
    is_training: npt.NDArray[np.bool_]
    photographers: tuple[str, ...]
    is_png: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.uuids)


def plan_nabirds(
    images: int, *, classes: int | None = None, seed: int = 0, max_side: int = MAX_SIDE
) -> Plan:
    """Work out a synthetic set without drawing it; arguments and errors as for `write_nabirds`."""
    _check_range("images", images, 2, None)
    _check_range("seed", seed, 0, 2**64 - 1)
    _check_range("max_side", max_side, MIN_MAX_SIDE, MAX_SIDE)
    if classes is None:
        classes = min(max(images // 16, 2), images // 2, MAX_CLASSES)
    _check_range("classes", classes, 1, MAX_CLASSES)
    if images < 2 * classes:
        raise ConfigError(
            f"images = {images} is too few for classes = {classes}: each class needs one image to "
            f"train and one to test with; give at least images = {2 * classes}, or fewer classes"
        )

    taxonomy = build_taxonomy(classes)
    labels = _draw_labels(images, classes, seed)
    is_training = _draw_split(labels, classes, seed)
    is_png, is_upper_case, overruns = _place_quirks(is_training)
    sizes = _draw_sizes(images, seed, max_side)
    sizes[is_png] = np.maximum(1, np.array(_PNG_SIZE) * max_side // MAX_SIDE)
    subjects, boxes = _draw_boxes(sizes, overruns, seed)

    uuids = _draw_uuids(images, seed)
    photographers = _draw_photographers(images, seed)
    order = np.array(sorted(range(images), key=uuids.__getitem__), dtype=np.int64)
    paths = [
        f"{taxonomy.class_ids[label]:04d}/{name.replace('-', '')}{'.JPG' if upper else '.jpg'}"
        for label, name, upper in zip(labels.tolist(), uuids, is_upper_case.tolist(), strict=True)
    ]
    return Plan(
        seed=seed,
        taxonomy=taxonomy,
        numbers=order,
        uuids=tuple(uuids[i] for i in order),
        paths=tuple(paths[i] for i in order),
        labels=labels[order],
        sizes=sizes[order],
        subjects=subjects[order],
        boxes=boxes[order],
        is_training=is_training[order],
        photographers=tuple(photographers[i] for i in order),
        is_png=is_png[order],
    )


def _check_range(name: str, value: int, low: int, high: int | None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} = {value!r} must be an integer")
    if value < low or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ConfigError(f"{name} = {value} is out of range: it must be {bounds}")


def _look_up(
    table: tuple[float, ...], uniforms: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    return np.interp(uniforms, _LEVELS, table)


def _draw_uuids(images: int, seed: int) -> list[str]:
    words = Draws(seed, Stream.IDS).words(2 * images).reshape(images, 2).tolist()
    return [str(uuid.UUID(int=(high << 64) | low, version=4)) for high, low in words]


def _draw_labels(images: int, classes: int, seed: int) -> npt.NDArray[np.int64]:
    """Two images for each class, and the rest in the real set's unequal shares."""
    draws = Draws(seed, Stream.CLASSES)
    weights = _look_up(_IMAGES_PER_CLASS, draws.uniforms(classes))
    ends = np.cumsum(weights)
    # Rounding the running total, not each count, makes the counts add up.
    ends = np.rint(ends / ends[-1] * (images - 2 * classes)).astype(np.int64)
    counts = 2 + np.diff(ends, prepend=0)
    labels = np.repeat(np.arange(classes), counts)
    return labels[draws.order(images)]


def _draw_split(labels: npt.NDArray[np.int64], classes: int, seed: int) -> npt.NDArray[np.bool_]:
    """About half of each class, and of each class at least one on either side."""
    draws = Draws(seed, Stream.SPLIT)
    counts = np.bincount(labels, minlength=classes)
    to_train = counts // 2 + (counts % 2) * (draws.uniforms(classes) < 0.5)
    # Images of one class in random order, and each one's place among them.
    shuffled = draws.order(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    place = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_training = np.zeros(len(labels), dtype=np.bool_)
    is_training[by_class] = place < np.repeat(to_train, counts)
    return is_training


def _place_quirks(
    is_training: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which images are PNGs, which end in `.JPG`, which boxes overrun; none is two of these."""
    images = len(is_training)
    is_png, is_upper_case, overruns = (np.zeros(images, dtype=np.bool_) for _ in range(3))
    if images >= QUIRKS_FROM:
        train, test = np.flatnonzero(is_training), np.flatnonzero(~is_training)
        half = max(1, images // (2 * _ONE_IN_UPPER_CASE))
        is_png[train[0]] = True
        is_upper_case[train[1 : 1 + half]] = True
        is_upper_case[test[:half]] = True
        free = np.flatnonzero(~is_png & ~is_upper_case)
        overruns[free[: max(2, images // _ONE_IN_OVERRUNS)]] = True
    return is_png, is_upper_case, overruns


def _draw_sizes(images: int, seed: int, max_side: int) -> npt.NDArray[np.int64]:
    u = Draws(seed, Stream.SIZES).uniforms(4 * images).reshape(images, 4)
    long = np.where(u[:, 0] < _FULL_SIDE, float(MAX_SIDE), np.floor(_look_up(_LONG_SIDE, u[:, 1])))
    landscape = u[:, 2] < _LANDSCAPE
    square = u[:, 2] >= 1.0 - _SQUARE
    ratio = np.where(
        landscape,
        _look_up(_SHORT_OVER_LONG_LANDSCAPE, u[:, 3]),
        _look_up(_SHORT_OVER_LONG_PORTRAIT, u[:, 3]),
    )
    # Only a picture meant to be square has equal sides.
    short = np.where(square, long, np.clip(np.rint(long * ratio), 90, long - 1))
    sizes = np.where(
        landscape[:, None], np.stack([long, short], axis=1), np.stack([short, long], axis=1)
    )
    if max_side != MAX_SIDE:
        sizes = np.maximum(8.0, np.rint(sizes * max_side / MAX_SIDE))
    return sizes.astype(np.int64)


def _draw_boxes(
    sizes: npt.NDArray[np.int64], overruns: npt.NDArray[np.bool_], seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the subjects are, and what the file says about it."""
    images = len(sizes)
    draws = Draws(seed, Stream.BOXES)
    u = draws.uniforms(4 * images).reshape(images, 4)
    bells = draws.bells(2 * images).reshape(images, 2)
    full = sizes.astype(np.float64)
    area = full[:, 0] * full[:, 1]
    share = _look_up(_BOX_SHARE, u[:, 0])
    aspect = _look_up(_BOX_ASPECT, u[:, 1]) * np.sqrt(full[:, 0] / full[:, 1] / (4 / 3))
    # A box too wide or too high for its picture keeps its area and gives up its shape.
    limit = 0.97 * full
    w = np.minimum(np.sqrt(share * area * aspect), limit[:, 0])
    h = np.minimum(share * area / w, limit[:, 1])
    w = np.minimum(share * area / h, limit[:, 0])
    extent = np.maximum(np.rint(np.stack([w, h], axis=1)), np.minimum(6.0, full))
    room = full - extent
    centre = full * (0.5 + 0.085 * bells)
    corner = np.clip(np.rint(centre - extent / 2), 0.0, room)

    # An overrunning box belongs to a subject at the picture's edge.
    horizontally = overruns & (u[:, 2] < 0.5)
    vertically = overruns & (u[:, 2] >= 0.5)
    corner[horizontally, 0] = room[horizontally, 0]
    corner[vertically, 1] = room[vertically, 1]
    subjects = np.concatenate([corner, extent], axis=1).astype(np.int64)
    boxes = subjects.copy()
    beyond = 1 + np.floor(u[:, 3] * 0.2 * extent.min(axis=1)).astype(np.int64)
    boxes[horizontally, 2] += beyond[horizontally]
    boxes[vertically, 3] += beyond[vertically]
    return subjects, boxes


def _draw_photographers(images: int, seed: int) -> list[str]:
    """A few people took many pictures and many took few; no name is a real person's."""
    people = max(8, images // 40)
    u = Draws(seed, Stream.PHOTOGRAPHERS).uniforms(images)
    persons = np.floor(u * u * people).astype(np.int64)
    names = [f"Synthetic Photographer {person + 1}" for person in range(people)]
    odd = len(_ODD_NAMES)
    names[-odd:] = [_ODD_NAMES[i].format(people - odd + i + 1) for i in range(odd)]
    if images >= QUIRKS_FROM:
        persons[:odd] = people - odd + np.arange(odd)
    return [names[person] for person in persons.tolist()]
