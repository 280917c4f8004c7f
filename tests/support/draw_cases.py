"""What transforms draw, told in the words of torchvision's rules, for 100,000 records at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed import transforms as tf
from gpufeed.rng import BatchRng
from tests.support import torchvision_rules as rules
from tests.support.colour_cases import sigma
from tests.support.torchvision_rules import BOXES, HEIGHT, WIDTH, Drawn, chance, uniform

COUNT = 100_000
LIMIT = 2.23
"""Of Kolmogorov and Smirnov's statistic times the root of the sample; one in 10,000 is above."""


@dataclass(frozen=True)
class Case:
    """A transform, what it drew by the names of the rule, and the rule."""

    transform: tf.Transform
    told: Callable[[Any], Drawn]
    rule: Callable[[np.random.Generator, int], Drawn]


def plain(p: tf.Params) -> Drawn:
    return dict(p)


def only(*names: str) -> Callable[[tf.Params], Drawn]:
    return lambda p: {name: p[name] for name in names}


def windows(p: tf.Params) -> Drawn:
    return {**p, "area": p["height"] * p["width"]}


def affine(p: tf.Params) -> Drawn:
    parts = {"angle": p["angle"], "scale": p["scale"]}
    for name, column in (("x", 0), ("y", 1)):
        parts |= {name: p["translate"][:, column], f"shear {name}": p["shear"][:, column]}
    return parts


def corners(p: tf.Params) -> Drawn:
    places = {
        f"{name}{corner}": p["corners"][:, corner, column]
        for corner in range(4)
        for column, name in enumerate("xy")
    }
    return {"chosen": p["mask"], **places}


def jitter(p: tf.Params) -> Drawn:
    """From which steps are taken to the place of each operation in the order."""
    steps = "bcbsbcbhbcbsbcb"
    taken = np.ones((len(p["hue"]), len(steps)), dtype=bool)
    for step in set(range(len(steps))) - {steps.index("h")}:
        taken[:, step] = p[f"step{step}"]
    before = taken.cumsum(axis=1) - 1
    out = only(*rules.FACTORS)(p)
    for name in rules.FACTORS:
        own = [step for step, letter in enumerate(steps) if letter == name[0]]
        assert (taken[:, own].sum(axis=1) == 1).all()
        out[f"{name} comes"] = (taken * before)[:, own].sum(axis=1)
    return out


def blots(p: tf.Params) -> Drawn:
    (top, left), (height, width) = p["anchor"].T, p["shape"].T
    mask = p["mask"]
    parts = {"height": height, "width": width, "top": mask * top, "left": mask * left}
    return {**parts, "area": height * width}


def shares(drawn: tuple[tf.Params, npt.NDArray[np.float32]]) -> Drawn:
    return {"lam": drawn[1]}


def pastes(drawn: tuple[tf.Params, npt.NDArray[np.float32]]) -> Drawn:
    p, share = drawn
    height, width = p["shape"].T
    return {"lam": share, "width": width, "height": height, "left": p["mask"] * p["anchor"][:, 1]}


NOTHING = tf.RandomInvert(1.0)
CASES: dict[str, Case] = {
    "RandomResizedCrop": Case(tf.RandomResizedCrop(10), windows, rules.resized_crop),
    "RandomCrop": Case(tf.RandomCrop((100, 300), 3, pad_if_needed=True), plain, rules.crop),
    "RandomHorizontalFlip": Case(tf.RandomHorizontalFlip(0.3), plain, chance(0.3, "flip")),
    "RandomVerticalFlip": Case(tf.RandomVerticalFlip(0.8), plain, chance(0.8, "flip")),
    "RandomRotation": Case(tf.RandomRotation(25), plain, uniform("angle", -25, 25)),
    "RandomAffine": Case(
        tf.RandomAffine((10, 40), (0.1, 0.25), (0.5, 2), (-5, 15, 0, 3)), affine, rules.affine
    ),
    "RandomPerspective": Case(tf.RandomPerspective(0.5, 0.7), corners, rules.perspective),
    "RandomZoomOut": Case(tf.RandomZoomOut(), plain, rules.zoom_out),
    "ScaleJitter": Case(tf.ScaleJitter((500, 300)), plain, rules.scale_jitter),
    "RandomResize": Case(tf.RandomResize(50, 90), plain, rules.resize),
    "RandomShortestSize": Case(
        tf.RandomShortestSize([50, 60, 90], 110), plain, rules.shortest_size
    ),
    "RandomIoUCrop": Case(tf.RandomIoUCrop(), plain, rules.iou_crop),
    "ColorJitter": Case(tf.ColorJitter(0.4, 0.3, (0.5, 2.0), 0.1), jitter, rules.color_jitter),
    "RandomGrayscale": Case(tf.RandomGrayscale(), only("chosen"), chance(0.1)),
    "RandomInvert": Case(tf.RandomInvert(), only("chosen"), chance(0.5)),
    "RandomPosterize": Case(tf.RandomPosterize(3, 0.7), only("chosen"), chance(0.7)),
    "RandomSolarize": Case(tf.RandomSolarize(9, 0.2), only("chosen"), chance(0.2)),
    "RandomAdjustSharpness": Case(tf.RandomAdjustSharpness(2), only("chosen"), chance(0.5)),
    "RandomAutocontrast": Case(tf.RandomAutocontrast(0.9), only("chosen"), chance(0.9)),
    "RandomEqualize": Case(tf.RandomEqualize(0.4), only("chosen"), chance(0.4)),
    "GaussianBlur": Case(
        tf.GaussianBlur(5), lambda p: {"sigma": sigma(p["across"])}, uniform("sigma", 0.1, 2.0)
    ),
    "JPEG": Case(tf.JPEG((20, 90)), plain, rules.qualities),
    "Gamma": Case(tf.Gamma((0.6, 1.2)), plain, uniform("gamma", 0.6, 1.2)),
    "Contrast": Case(tf.Contrast((0.8, 1.2)), plain, uniform("factor", 0.8, 1.2)),
    "RandomApply": Case(tf.RandomApply([NOTHING], 0.3), only("mask"), chance(0.3, "mask")),
    "RandomChoice": Case(
        tf.RandomChoice([NOTHING] * 3, p=[0.2, 0.5, 0.3]), only("index"), rules.choice
    ),
    "RandomErasing": Case(tf.RandomErasing(0.6), blots, rules.erasing),
    "MixUp": Case(tf.MixUp(0.4), shares, rules.mixup),
    "CutMix": Case(tf.CutMix(), pastes, rules.cutmix),
}


def ours(name: str, count: int = COUNT, seed: int = 5) -> Drawn:
    """What a case's transform draws."""
    keys = np.arange(count)
    each = len(BOXES)
    flat, offsets = np.tile(BOXES, (count, 1)).astype(float), np.arange(count + 1) * each
    objects = tf.Objects(flat, offsets, np.zeros(count * each, np.int32))
    sides = np.full(count, HEIGHT), np.full(count, WIDTH)
    records = tf.Records(keys, *sides, boxes=None, objects=objects)
    case = CASES[name]
    rng = BatchRng(seed, np.zeros(count, np.int64), keys, 2)
    return case.told(case.transform.draw(rng, records))  # type: ignore[attr-defined]


def statistic(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """Kolmogorov and Smirnov's of two samples, times the root of what both count for."""
    first, second = (np.sort(np.asarray(each, dtype=np.float64)) for each in (one, other))
    places = np.unique(np.concatenate([first, second]))
    below = [np.searchsorted(each, places, side="right") / len(each) for each in (first, second)]
    apart = np.abs(below[0] - below[1]).max()
    return float(apart * math.sqrt(len(first) * len(second) / (len(first) + len(second))))
