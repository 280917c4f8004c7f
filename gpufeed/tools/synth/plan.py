"""All metadata of the synthetic set, drawn from distributions like those of NABirds.

The tables are quantiles measured on NABirds; a draw looks up a uniform random number in one.
"""

from __future__ import annotations

import dataclasses
import uuid

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.tools.synth.taxonomy import MAX_CLASSES, Taxonomy, build_taxonomy

__all__ = ["MAX_SIDE", "Plan", "plan_nabirds"]

MAX_SIDE = 1024

_LEVELS = (0.0, 0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 1.0)
_IMAGES_PER_CLASS = (13, 22, 42, 60, 75, 91, 108, 116, 118, 120, 120)
# Sizes: the share of images whose long side is the maximum, and quantiles for the others.
_FULL_SIDE = 0.667
_LONG_SIDE = (98, 442, 517, 600, 640, 800, 800, 909, 1000, 1020, 1023)
_LANDSCAPE, _SQUARE = 0.8137, 0.0155
_SHORT_OVER_LONG_LANDSCAPE = (0.30, 0.556, 0.622, 0.655, 0.667, 0.698, 0.75, 0.80, 0.836, 0.952, 1)
_SHORT_OVER_LONG_PORTRAIT = (0.45, 0.609, 0.665, 0.667, 0.710, 0.773, 0.807, 0.90, 0.948, 0.989, 1)
# Boxes: the share of the image's area, and width over height in a 4:3 image.
_BOX_SHARE = (0.012, 0.029, 0.064, 0.097, 0.173, 0.283, 0.415, 0.550, 0.634, 0.740, 0.80)
_BOX_ASPECT = (0.50, 0.55, 0.62, 0.68, 0.86, 1.16, 1.54, 1.90, 2.10, 2.30, 2.40)

_ODD_NAMES = (
    "Synthetic Photographer {}, A. & B.",
    '"Synth" Synthetic Photographer {}, photos.example',
    "Synthetic Photographers {} & Co",
)
_ONE_IN_OVERRUNS = 240
_ONE_IN_UPPER_CASE = 1400

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The metadata of a set; all columns are in the order of the files, sorted by `uuids`.

    Attributes:
        seed: the seed of the metadata and the images.
        taxonomy: the classes, their names and their tree.
        uuids: ids, lower-case with dashes.
        paths: paths below `images/`.
        labels: indices into `taxonomy.class_ids`, (N,).
        sizes: width and height in pixels, (N, 2).
        subjects: x, y, width and height of the drawn bird, inside the image, (N, 4).
        boxes: the boxes written to the file, of which a few extend beyond their image, (N, 4).
        is_training: whether each image is in the training split, (N,).
        photographers: invented names.
        png: the row of an image that is a PNG with transparency, although its name ends in .jpg.
    """

    seed: int
    taxonomy: Taxonomy
    uuids: tuple[str, ...]
    paths: tuple[str, ...]
    labels: Ints
    sizes: Ints
    subjects: Ints
    boxes: Ints
    is_training: Bools
    photographers: tuple[str, ...]
    png: int

    def __len__(self) -> int:
        return len(self.uuids)


def plan_nabirds(images: int, *, seed: int = 0, max_side: int = MAX_SIDE) -> Plan:
    """Return the metadata of a synthetic set; arguments and errors as for `write_nabirds`."""
    for name, value, low, high in (
        ("images", images, 2, 10**7),
        ("seed", seed, 0, 2**64 - 1),
        ("max_side", max_side, 64, MAX_SIDE),
    ):
        if not low <= value <= high:
            raise ConfigError(f"{name} is {value}; it must be from {low} to {high}")
    taxonomy = build_taxonomy(min(max(images // 16, 2), images // 2, MAX_CLASSES))
    rng = np.random.default_rng([seed, 0])
    uuids = sorted(str(uuid.UUID(bytes=rng.bytes(16), version=4)) for _ in range(images))
    labels = _draw_labels(images, len(taxonomy.class_ids), rng)
    # Every second image of each class, so that both splits have one.
    is_training = np.zeros(images, dtype=np.bool_)
    second = [np.arange(count) % 2 == 1 for count in np.bincount(labels)]
    is_training[np.argsort(labels, kind="stable")] = np.concatenate(second)

    # The real set's oddities, on different images if there are enough.
    train, test = np.flatnonzero(is_training), np.flatnonzero(~is_training)
    half = max(1, images // (2 * _ONE_IN_UPPER_CASE))
    upper_case = {*train[1 : 1 + half].tolist(), *test[:half].tolist()}
    overruns = np.zeros(images, dtype=np.bool_)
    overruns[test[half:][: max(2, images // _ONE_IN_OVERRUNS)]] = True

    sizes = _draw_sizes(images, max_side, rng)
    subjects, boxes = _draw_boxes(sizes, overruns, rng)
    paths = (
        f"{taxonomy.class_ids[label]:04d}/{name.replace('-', '')}"
        + (".JPG" if row in upper_case else ".jpg")
        for row, (label, name) in enumerate(zip(labels.tolist(), uuids, strict=True))
    )
    return Plan(
        seed=seed,
        taxonomy=taxonomy,
        uuids=tuple(uuids),
        paths=tuple(paths),
        labels=labels,
        sizes=sizes,
        subjects=subjects,
        boxes=boxes,
        is_training=is_training,
        photographers=_draw_photographers(images, rng),
        png=int(train[0]),
    )


def _look_up(table: tuple[float, ...], uniforms: Floats) -> Floats:
    return np.interp(uniforms, _LEVELS, table)


def _draw_labels(images: int, classes: int, rng: np.random.Generator) -> Ints:
    """Return two images for each class, and the rest in the real set's unequal shares."""
    weights = _look_up(_IMAGES_PER_CLASS, rng.random(classes))
    rest = rng.choice(classes, images - 2 * classes, p=weights / weights.sum())
    return rng.permutation(np.concatenate([np.repeat(np.arange(classes), 2), rest]))


def _draw_sizes(images: int, max_side: int, rng: np.random.Generator) -> Ints:
    u = rng.random((4, images))
    long = np.where(u[0] < _FULL_SIDE, MAX_SIDE, np.floor(_look_up(_LONG_SIDE, u[1])))
    landscape = u[2] < _LANDSCAPE
    ratio = np.where(
        landscape,
        _look_up(_SHORT_OVER_LONG_LANDSCAPE, u[3]),
        _look_up(_SHORT_OVER_LONG_PORTRAIT, u[3]),
    )
    # Only images drawn as square have equal sides.
    short = np.clip(np.rint(long * ratio), 90, long - 1)
    short = np.where(u[2] >= 1 - _SQUARE, long, short)
    sizes = np.where(landscape, [long, short], [short, long]).T
    return np.maximum(8, np.rint(sizes * max_side / MAX_SIDE)).astype(np.int64)


def _draw_boxes(sizes: Ints, overruns: Bools, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return the boxes of the subjects, and the boxes to write to the file."""
    u = rng.random((4, len(sizes)))
    area = sizes.prod(axis=1) * _look_up(_BOX_SHARE, u[0])
    aspect = _look_up(_BOX_ASPECT, u[1]) * np.sqrt(sizes[:, 0] / sizes[:, 1] / (4 / 3))
    # A box too wide or too high for its image keeps its area but changes its aspect.
    limit = 0.97 * sizes
    width = np.clip(np.sqrt(area * aspect), area / limit[:, 1], limit[:, 0])
    extent = np.stack([width, np.minimum(area / width, limit[:, 1])], axis=1)
    extent = np.maximum(np.rint(extent), np.minimum(6, sizes))
    room = sizes - extent
    centre = sizes * (0.5 + 0.085 * rng.standard_normal(sizes.shape))
    corner = np.clip(np.rint(centre - extent / 2), 0, room)

    # An overrunning box belongs to a subject at the image's edge.
    axis = (u[2] >= 0.5).astype(np.int64)
    rows = np.flatnonzero(overruns)
    corner[rows, axis[rows]] = room[rows, axis[rows]]
    subjects = np.concatenate([corner, extent], axis=1).astype(np.int64)
    boxes = subjects.copy()
    beyond = 1 + (u[3] * 0.2 * extent.min(axis=1)).astype(np.int64)
    boxes[rows, 2 + axis[rows]] += beyond[rows]
    return subjects, boxes


def _draw_photographers(images: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Return invented names, so that a few people took many images and many took few."""
    people = max(8, images // 40)
    names = [f"Synthetic Photographer {person + 1}" for person in range(people)]
    odd = range(people - len(_ODD_NAMES), people)
    names[odd.start :] = [name.format(n + 1) for name, n in zip(_ODD_NAMES, odd, strict=True)]
    persons = (rng.random(images) ** 2 * people).astype(np.int64)
    persons[: len(odd)] = odd[:images]
    return tuple(names[person] for person in persons)
