"""Several views of a record from one decode: each as if it were alone, but for its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpufeed
from gpufeed import ConfigError, Loader, Manifest, SequentialSampler
from gpufeed import transforms as tf
from tests.support.pillow_reference import difference, reference

UINT8 = tf.ToDtype("uint8", layout="NHWC")
LARGE = [tf.RandomResizedCrop(40), tf.RandomHorizontalFlip(), UINT8]
SMALL = [tf.RandomResizedCrop(16, scale=(0.05, 0.4)), tf.RandomHorizontalFlip(), UINT8]
MULTI = [LARGE, LARGE, SMALL, SMALL, SMALL]


def make(manifest: Manifest, views: Any, *, in_graph: bool = False, **options: Any) -> Loader:
    options = {"sampler": SequentialSampler(len(manifest), seed=3), "batch_size": 8, **options}
    options |= {"device": "cpu", "opener": "graph" if in_graph else "threads"}
    return Loader(manifest, transforms=views, last_batch="partial", **options)


@pytest.mark.parametrize("in_graph", [False, True])
def test_each_view_is_pillows(pictures: Manifest, in_graph: bool) -> None:
    with make(pictures, tf.Views(MULTI), in_graph=in_graph) as loader:
        for batch in loader:
            assert [image.shape[1:] for image in batch["image"]] == [(40, 40, 3)] * 2 + [
                (16, 16, 3)
            ] * 3
            for place, key in enumerate(batch["record_key"].tolist()):
                path = pictures.root / pictures.frame["path"][key]
                before: list[tf.Transform] = []
                for view, images in zip(MULTI, batch["image"], strict=True):
                    # What a transform draws goes by how many stand before it, in all views.
                    with Image.open(path) as image:
                        wanted = reference(
                            image,
                            [*[UINT8] * len(before), *view],
                            seed=3,
                            epoch=0,
                            key=key,
                            edges="repeated" if in_graph else "left out",
                        )
                    assert difference(images[place], wanted)[0] <= 2
                    before += view


def test_views_draw_apart(pictures: Manifest) -> None:
    with make(pictures, tf.Views([LARGE, LARGE])) as loader:
        first, second = next(iter(loader))["image"]
    assert all((one != other).any() for one, other in zip(first, second, strict=True))


def test_a_picture_is_decoded_once(pictures: Manifest, decoded: list[bytes]) -> None:
    with make(pictures, tf.Views(MULTI)) as loader:
        loader.batch(0)
    assert len(decoded) == len(set(decoded)) == 8


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_frameworks_get_a_list(pictures: Manifest, framework: str) -> None:
    with (
        make(pictures, tf.Views(MULTI)) as plain,
        make(pictures, tf.Views(MULTI), framework=framework) as other,
    ):
        wanted, found = plain.batch(1)["image"], other.batch(1)["image"]
    assert isinstance(found, list)
    for one, same in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(np.asarray(same), one)


def test_state_and_ledger_know_views(pictures: Manifest) -> None:
    with make(pictures, tf.Views(MULTI), ledger="pixels") as loader:
        iterator = iter(loader)
        next(iterator)
        state, ledger = loader.state_dict(), loader.ledger
        assert ledger is not None
    with make(pictures, tf.Views(MULTI)) as same:
        same.load_state_dict(state)
        assert same.step == 1
    with make(pictures, tf.Views(MULTI[1:])) as other, pytest.raises(gpufeed.StateMismatchError):
        other.load_state_dict(state)


@pytest.mark.parametrize("wrong", [[], [LARGE], [*LARGE], LARGE[0], "train", None, 3])
def test_no_views(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="list"):
        tf.Views(wrong)


@pytest.mark.parametrize("vertical", [False, True])
def test_five_and_ten_crops_are_pillows(pictures: Manifest, vertical: bool) -> None:
    plain = [tf.Resize((30, 40)), UINT8]
    with make(pictures, plain) as loader:
        whole = loader.batch(0)["image"]
    chain = [tf.Resize((30, 40)), tf.TenCrop((20, 30), vertical_flip=vertical), UINT8]
    with make(pictures, chain) as loader:
        found = loader.batch(0)["image"]
    with make(pictures, [tf.Resize((30, 40)), tf.FiveCrop((20, 30)), UINT8]) as loader:
        five = loader.batch(0)["image"]
    assert len(found) == 10
    flipped = whole[:, ::-1] if vertical else whole[:, :, ::-1]
    for number, crop in enumerate(found):
        top, left = [(0, 0), (0, 10), (10, 0), (10, 10), (5, 5)][number % 5]
        source = whole if number < 5 else flipped
        wanted = source[:, top : top + 20, left : left + 30]
        # The filter sees the same pixels; a flip before the crop may round otherwise.
        assert difference(crop, wanted)[0] <= 1
        if number < 5:
            np.testing.assert_array_equal(crop, five[number])


def test_crops_larger_than_the_picture_are_refused(pictures: Manifest) -> None:
    with pytest.raises(ConfigError, match=r"a crop of 50 x 50 is larger than an image of 30 x 40"):
        make(pictures, [tf.Resize((30, 40)), tf.FiveCrop(50), UINT8])


def test_crops_are_of_one_picture(pictures: Manifest) -> None:
    """What stands before them draws once for all views, what comes after them for each."""
    before = [tf.Resize((40, 50)), tf.RandomHorizontalFlip(), tf.RandomCrop(30)]
    with make(pictures, [*before, UINT8]) as loader:
        whole = loader.batch(0)["image"]
    with make(pictures, [*before, tf.FiveCrop(20), UINT8]) as loader:
        five = loader.batch(0)["image"]
    for number, (top, left) in enumerate([(0, 0), (0, 10), (10, 0), (10, 10), (5, 5)]):
        wanted = whole[:, top : top + 20, left : left + 20]
        assert difference(five[number], wanted)[0] <= 1
    after = [*before, tf.FiveCrop(20), tf.RandomErasing(p=1.0)]
    with make(pictures, after) as loader:
        erased = loader.batch(0)["image"]
    blank = [(view == 0).all(axis=1).tobytes() for view in erased]
    assert len(set(blank)) == 5


@pytest.mark.parametrize("kind", [tf.FiveCrop(8), tf.TenCrop(8, vertical_flip=True)])
def test_crops_in_lists_are_found_and_named(pictures: Manifest, kind: tf.Transform) -> None:
    chain = tf.Compose([tf.Resize((20, 20)), tf.Compose([kind]), UINT8])
    with make(pictures, chain) as loader:
        assert len(loader.batch(0)["image"]) in (5, 10)
        told = loader.state_dict()["fingerprints"]["transforms"]
    assert f'"kind":"{type(kind).__name__}"' in told
    assert "_FixedCrop" not in told
    with pytest.raises(ConfigError, match="makes several views"):
        tf.Views([chain, chain])


def test_transforms_may_be_any_iterable(pictures: Manifest) -> None:
    with make(pictures, (each for each in LARGE)) as loader:
        assert loader.batch(0)["image"].shape == (8, 40, 40, 3)
    for wrong in (tf.Resize(8), 3, "train"):
        with pytest.raises(ConfigError, match="it must be a list of transforms"):
            make(pictures, wrong)
