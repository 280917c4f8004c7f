"""A record's pixels and labels depend on (manifest, seed, epoch, record), whoever is beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpufeed
from gpufeed import Loader, Manifest, ShardOptions
from gpufeed import transforms as tf
from tests.support.media import make_manifest

LEVELS = [
    tf.ColorJitter(0.4, 0.4, 0.4, 0.1),
    tf.RandomGrayscale(0.4),
    tf.GaussianBlur(5, (0.1, 2.0)),
    tf.RandomSolarize(100, p=0.5),
    tf.RandomPosterize(3, p=0.5),
    tf.RandomInvert(0.5),
    tf.RandomAutocontrast(0.5),
    tf.RandomEqualize(0.5),
    tf.RandomAdjustSharpness(2.0, p=0.5),
    tf.Gamma((0.5, 1.5)),
    tf.Contrast((0.5, 1.5)),
    tf.JPEG((20, 90)),
    tf.RandAugment(interpolation="bilinear"),
    tf.TrivialAugmentWide(),
    tf.AutoAugment(),
    tf.TimmRandAugment(),
    tf.AugMix(mixture_width=2),
    tf.RandomApply([tf.RandomInvert(0.5), tf.JPEG(30)], p=0.5),
    tf.RandomChoice([tf.RandomEqualize(1.0), [tf.RandomInvert(1.0), tf.Gamma((0.5, 1.5))]]),
]
MOVES = [
    tf.RandomResizedCrop(40),
    tf.Resize((36, 44)),
    tf.ResizeLongest(50),
    tf.RandomHorizontalFlip(),
    tf.RandomVerticalFlip(),
    tf.RandomRotation(30, "bilinear"),
    tf.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10),
    tf.RandomPerspective(),
    tf.Pad(3, fill=(1, 2, 3)),
    tf.RandomZoomOut(),
    tf.RandomShortestSize([30, 40]),
    tf.ScaleJitter((40, 40)),
]
LATE = [tf.RandomErasing(), tf.RandomErasing(value="random"), tf.MixUp(), tf.CutMix()]

steps = st.lists(st.sampled_from([*LEVELS, *MOVES]), min_size=1, max_size=6)
late = st.sampled_from([[], *[[each] for each in LATE]])


def by_record(manifest: Manifest, transforms: Any, **options: Any) -> dict[int, tuple[Any, ...]]:
    found = {}
    with Loader(manifest, transforms=transforms, device="cpu", **options) as loader:
        for batch in loader:
            images = batch["image"] if isinstance(batch["image"], list) else [batch["image"]]
            for place, key in enumerate(batch["record_key"].tolist()):
                pixels = tuple(image[place].tobytes() for image in images)
                mixed = (
                    (int(batch["label_b"][place]), float(batch["lam"][place]))
                    if ("lam" in batch)
                    else ()
                )
                found[key] = (pixels, int(batch["label"][place]), *mixed)
    return found


@settings(max_examples=1)
@given(steps, late, st.booleans(), st.integers(0, 2**32))
@example([*MOVES[:6], *LEVELS[:5]], [LATE[0]], True, 0)
@example([*LEVELS[5:12], *MOVES[6:]], [LATE[1]], True, 1)
@example(LEVELS[12:15], [LATE[2]], False, 2)
@example(LEVELS[15:], [LATE[3]], False, 3)
def test_a_record_is_its_own(
    pictures: Manifest,
    steps: list[tf.Transform],
    late: list[tf.Transform],
    in_views: bool,
    seed: int,
) -> None:
    """The examples have all of the lists above."""
    few = Manifest(pictures.frame.head(12), pictures.root, pictures.classes)
    chain: Any = [*steps, tf.Resize((32, 32)), tf.Normalize(), *late]
    if in_views and not any(isinstance(each, tf.MixTransform) for each in late):
        chain = tf.Views([chain, [tf.RandomResizedCrop(16), tf.Normalize()]])
    sampler = gpufeed.IndexSampler(12, shuffle=True, seed=seed, num_epochs=1)
    wanted = by_record(few, chain, sampler=sampler, batch_size=4)
    assert len(wanted) == 12
    shards: dict[int, tuple[Any, ...]] = {}
    for index in range(2):
        shard = ShardOptions(index, 2)
        shards |= by_record(few, chain, sampler=sampler, batch_size=6, shard=shard)
    assert shards == wanted
    size = 2
    if not late or not isinstance(late[0], tf.MixTransform):  # a mix goes by the order
        sampler, size = gpufeed.SequentialSampler(12, seed=seed, num_epochs=1), 1
    assert by_record(few, chain, sampler=sampler, batch_size=size, num_threads=1) == wanted


def test_epochs_draw_anew(pictures: Manifest) -> None:
    few = Manifest(pictures.frame.head(8), pictures.root, pictures.classes)
    chain = [tf.Resize((32, 32)), tf.TrivialAugmentWide(), tf.ColorJitter(0.4), tf.Normalize()]
    sampler = gpufeed.SequentialSampler(8, seed=1)
    with Loader(few, sampler=sampler, transforms=chain, batch_size=8, device="cpu") as loader:
        first, second = loader.batch(0)["image"], loader.batch(1)["image"]
        assert all((one != other).any() for one, other in zip(first, second, strict=True))
        np.testing.assert_array_equal(loader.batch(0)["image"], first)


@pytest.mark.parametrize("transform", LEVELS, ids=lambda each: type(each).__name__)
def test_the_smallest_pictures_are_no_exception(tmp_path: Path, transform: tf.Transform) -> None:
    """In their own sizes, and as one pixel."""
    sizes = [(1, 1), (1, 7), (7, 1), (2, 2), (2, 9), (3, 3)]
    manifest = make_manifest(tmp_path / "small", sizes)
    chain = [transform, tf.Resize((1, 1)), transform, tf.Normalize()]
    with Loader(manifest, transforms=chain, batch_size=6, device="cpu") as loader:
        for step in range(4):
            assert np.isfinite(loader.batch(step)["image"]).all()
