"""Stages: which batches one graph can carry out, and what the graph is fed."""

from __future__ import annotations

import itertools
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest
from nvidia.dali import Pipeline, fn

import gpufeed
from gpufeed import Loader, Manifest, SequentialSampler, TransformError
from gpufeed import transforms as tf
from gpufeed.plan.compose import compose
from gpufeed.plan.stages import View
from gpufeed.rng import BatchRng

UINT8 = tf.ToDtype("uint8", layout="NHWC")
GREY = (124.0, 116.0, 104.0)


def structure(views: Any, keys: Any = (0, 1, 2, 3), sizes: Any = (90, 120)) -> tuple[View, ...]:
    keys = np.array(keys)
    rng = BatchRng(7, np.zeros_like(keys), keys, 0)
    sizes = np.broadcast_to(sizes, (len(keys), 2)).astype(np.int64)
    return compose(views, keys, sizes, None, rng, lambda _: np.arange(len(keys))[::-1]).structure


# ------------------------------------------------------------ structure

JITTER, ERASING, MIXUP, CUTMIX = tf.ColorJitter(0.4), tf.RandomErasing(), tf.MixUp(), tf.CutMix()
CHOICE = tf.RandomChoice([tf.RandomApply([tf.GaussianBlur(3)]), tf.RandAugment()])
FLIP, TURN = tf.RandomHorizontalFlip(), tf.RandomRotation(20)
NORMALIZE = tf.Normalize()

DIFFERENT: dict[str, list[tf.Transform]] = {
    "a resize": [tf.Resize((40, 40)), UINT8],
    "another filter": [tf.Resize((40, 40), "bicubic"), UINT8],
    "another size": [tf.Resize((40, 41)), UINT8],
    "a region": [tf.Resize((60, 60)), tf.CenterCrop(40), UINT8],
    "a canvas": [tf.Resize((20, 20)), tf.Pad(10), UINT8],
    "another colour": [tf.Resize((20, 20)), tf.Pad(10, fill=GREY), UINT8],
    "no resize": [tf.CenterCrop(40), UINT8],
    "a flip": [tf.Resize((40, 40)), FLIP, UINT8],
    "the other flip": [tf.Resize((40, 40)), tf.RandomVerticalFlip(), UINT8],
    "a warp": [tf.Resize((40, 40)), TURN, UINT8],
    "another sampling": [tf.Resize((40, 40)), tf.RandomRotation(20, "bilinear"), UINT8],
    "another colour outside": [tf.Resize((40, 40)), tf.RandomRotation(20, fill=GREY), UINT8],
    "a pixel transform": [tf.Resize((40, 40)), JITTER, UINT8],
    "later": [tf.Resize((40, 40)), FLIP, JITTER, UINT8],
    "earlier": [tf.Resize((40, 40)), JITTER, FLIP, UINT8],
    "a cut afterwards": [tf.Resize((60, 60)), JITTER, tf.CenterCrop(40), UINT8],
    "parts": [tf.Resize((40, 40)), CHOICE, UINT8],
    "another output": [tf.Resize((40, 40)), NORMALIZE],
    "erasing": [tf.Resize((40, 40)), NORMALIZE, ERASING],
    "a mix": [tf.Resize((40, 40)), NORMALIZE, MIXUP],
    "another mix": [tf.Resize((40, 40)), NORMALIZE, CUTMIX],
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_numbers_do_not_change_the_structure(name: str) -> None:
    chain = DIFFERENT[name]
    assert structure([chain]) == structure([chain], range(40, 49), (100, 130))


def test_calls_change_the_structure() -> None:
    structures = {name: structure([chain]) for name, chain in DIFFERENT.items()}
    for one, other in itertools.combinations(DIFFERENT, 2):
        assert structures[one] != structures[other], f"{one} and {other}"


class Wavering(tf.PixelTransform):
    """Draws a number under another name for an odd first record."""

    def draw(self, rng: BatchRng, records: tf.Records) -> tf.Tree:
        return {"part": {"odd" if records.record_key[0] % 2 else "even": rng.uniform()}}

    def build(self, image: Any, params: dict[str, Any]) -> Any:  # noqa: ARG002
        return image


def test_the_number_of_views_changes_the_structure() -> None:
    chain = DIFFERENT["later"]
    structures = [structure([chain] * count) for count in (1, 2, 3, 2)]
    assert structures[1] == structures[3]
    assert all(structures[1] != structures[other] for other in (0, 2))


def test_names_of_what_is_drawn_belong_to_the_structure() -> None:
    chain = [tf.Resize((8, 8)), Wavering(), UINT8]
    structures = [structure([chain], (first, 6)) for first in (1, 2, 3)]
    assert structures[0] == structures[2] != structures[1]


# ------------------------------------------------------------ what the graph is fed


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[tuple[str, Any]]]:
    """The inputs that graphs declare, by name, and what they are fed."""
    declared: list[str] = []
    fed: list[tuple[str, Any]] = []
    source, feed = fn.external_source, Pipeline.feed_input

    def declaring(*rest: Any, name: str, **options: Any) -> Any:
        declared.append(name)
        return source(*rest, name=name, **options)

    def feeding(self: Pipeline, name: str, data: Any, *rest: Any, **options: Any) -> None:
        fed.append((name, data))
        feed(self, name, data, *rest, **options)

    monkeypatch.setattr(fn, "external_source", declaring)
    monkeypatch.setattr(Pipeline, "feed_input", feeding)
    return declared, fed


LISTS: dict[str, Any] = {
    **{
        name: partial(getattr(gpufeed.presets, name), *([] if "course" in name else [48]))
        for name in gpufeed.presets.__all__
        if callable(getattr(gpufeed.presets, name))
    },
    "dino": lambda: gpufeed.presets.dino(48, local_size=24, local_crops=2),
    "warps, flips, parts, mixes": lambda: [
        tf.RandomVerticalFlip(),
        TURN,
        tf.Resize((40, 40)),
        FLIP,
        CHOICE,
        tf.RandomCrop(32),
        NORMALIZE,
        ERASING,
        tf.RandomChoice([MIXUP, CUTMIX]),
    ],
    "ten crops": lambda: [tf.Resize((40, 40)), tf.TenCrop(32), JITTER, UINT8],
}


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("name", LISTS)
def test_every_input_is_fed_once_a_batch(
    pictures: Manifest, met: tuple[list[str], list[tuple[str, Any]]], name: str, in_graph: bool
) -> None:
    declared, fed = met
    sampler, options = SequentialSampler(len(pictures)), {"batch_size": 4, "device": "cpu"}
    options |= {"opener": "graph" if in_graph else "threads", "prefetch": 1}
    with Loader(pictures, sampler=sampler, transforms=LISTS[name](), **options) as loader:
        for step in (0, 3):
            fed.clear()
            loader.batch(step)
            assert Counter(each for each, _ in fed) == Counter(declared)
            assert len(set(declared)) == len(declared)
            arrays = [values for _, values in fed if isinstance(values, np.ndarray)]
            views = loader._planner.plan(step).stages.views
            images = 1 if in_graph else len(views)
            assert len(arrays) == len(fed) - images
            for values in arrays:
                assert len(values) == 4
                assert values.flags.c_contiguous
                assert values.dtype not in (np.float64, np.int64)


def test_what_the_host_opens_is_not_fed(
    pictures: Manifest, met: tuple[list[str], list[tuple[str, Any]]]
) -> None:
    """But for its last flip, which is had for nothing later."""
    chain = [tf.RandomResizedCrop(16), tf.RandomVerticalFlip(), FLIP, UINT8]
    with Loader(pictures, transforms=chain, batch_size=4, device="cpu") as loader:
        loader.batch(0)
    assert met[0] == ["images 0", "rest 0"]


# ------------------------------------------------------------ what a user's transform draws


class Generous(tf.PixelTransform):
    """Draws parts in parts, numbers in lists, and more than it needs."""

    def draw(self, rng: BatchRng, records: tf.Records) -> Any:
        return {
            "spare": rng.uniform(),
            "parts": {"by": {"listed": [int(key) for key in records.record_key]}},
        }

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        from nvidia.dali import types

        added = fn.cast(image, dtype=types.INT32) + params["parts"]["by"]["listed"]
        return fn.cast(added, dtype=types.UINT8)


def test_a_transform_may_draw_more_than_it_needs(pictures: Manifest) -> None:
    options: dict[str, Any] = {"sampler": SequentialSampler(50), "batch_size": 10, "device": "cpu"}
    resized = [tf.Resize((8, 8))]
    with (
        Loader(pictures, transforms=[*resized, UINT8], **options) as plain,
        Loader(pictures, transforms=[*resized, Generous(), UINT8], **options) as more,
    ):
        for one, other in zip(plain, more, strict=True):
            gained = other["image"].astype(int) - one["image"]
            keys = one["record_key"][:, None, None, None]
            np.testing.assert_array_equal(gained, np.minimum(255 - one["image"], keys))


class Ragged(Generous):
    def draw(self, rng: BatchRng, records: tf.Records) -> Any:  # noqa: ARG002
        return {"by": [[1], [2, 3], [4], [5]]}


def test_numbers_that_are_no_array_are_blamed_on_their_transform(pictures: Manifest) -> None:
    with pytest.raises(TransformError, match="Ragged"):
        Loader(pictures, transforms=[tf.Resize((8, 8)), Ragged(), UINT8], batch_size=4)


# ------------------------------------------------------------ targets


def test_targets_are_planned_where_they_are_asked_for(pictures: Manifest) -> None:
    chain = [tf.RandomZoomOut(), tf.RandomIoUCrop(), tf.Resize((20, 20)), UINT8]
    for targets, count in (((), 0), (("boxes",), 1)):
        with Loader(pictures, transforms=chain, targets=targets, batch_size=4) as loader:
            plan = loader._planner.plan(0)
        assert plan is not None
        assert len(plan.targets) == count


def test_handing_boxes_out_leaves_the_plan_as_it_is(pictures: Manifest) -> None:
    options: dict[str, Any] = {"targets": ("boxes",), "box_format": "xywh", "batch_size": 4}
    chain = [tf.Resize((20, 20)), UINT8]
    with Loader(pictures, transforms=chain, device="cpu", **options) as loader:
        plan, views = loader._maker.make(0)
        first, again = (loader._hand_over.batch(plan, views) for _ in range(2))
        for one, other in zip(first["boxes"], again["boxes"], strict=True):
            np.testing.assert_array_equal(one, other)
