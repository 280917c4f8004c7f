"""Transforms of transforms, and a user's own function."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import gpufeed
from gpufeed import ConfigError, Loader, Manifest, SequentialSampler
from gpufeed import transforms as tf
from gpufeed._util.identity import encode
from gpufeed.open.inputs import feeds
from gpufeed.rng import BatchRng
from gpufeed.tools.rebuild import rebuild_transforms

UINT8 = tf.ToDtype("uint8", layout="NHWC")
SIZE = (20, 24)


class Add(tf.PixelTransform):
    """Adds a number that is drawn, or given."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def draw(self, rng: BatchRng, records: tf.Records) -> tf.Params:  # noqa: ARG002
        return {"by": rng.integers(self.low, self.high + 1)}

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        from nvidia.dali import fn, types

        return fn.cast_like(fn.cast(image, dtype=types.INT32) + params["by"], image)


def feed(manifest: Manifest, chain: list[Any], **options: Any) -> dict[int, np.ndarray]:
    options = {"batch_size": 8, "last_batch": "partial", "device": "cpu", **options}
    sampler = SequentialSampler(len(manifest), seed=4)
    chain = [tf.Resize(SIZE), *chain, UINT8]
    with Loader(manifest, sampler=sampler, transforms=chain, **options) as loader:
        return {
            int(key): np.array(image, dtype=int)
            for batch in loader
            for key, image in zip(batch["record_key"], batch["image"], strict=True)
        }


def gained(manifest: Manifest, chain: list[Any], **options: Any) -> list[int]:
    """What was added to each record, to levels that were not cut off."""
    plain, changed = feed(manifest, []), feed(manifest, chain, **options)
    found = []
    for key, image in plain.items():
        added = (changed[key] - image)[image < 130]
        assert len(added)
        assert added.min() == added.max()
        found.append(int(added[0]))
    return found


def test_all_or_nothing(pictures: Manifest) -> None:
    added = gained(pictures, [tf.RandomApply([Add(1, 1), Add(20, 20)], p=0.4)])
    assert set(added) == {0, 21}
    assert 8 <= added.count(21) <= 32
    assert set(gained(pictures, [tf.RandomApply([Add(5, 5)], p=0.0)])) == {0}
    assert set(gained(pictures, [tf.RandomApply([Add(5, 5)], p=1.0)])) == {5}


def test_one_of_several(pictures: Manifest) -> None:
    choice = tf.RandomChoice([Add(1, 1), [Add(3, 3), Add(30, 30)], Add(70, 70)], p=[1, 2, 0])
    added = gained(pictures, [choice])
    assert set(added) == {1, 33}
    assert 20 <= added.count(33) <= 46


def test_those_inside_draw_apart(pictures: Manifest) -> None:
    """Also from those in other containers, and beside them."""
    inner = [Add(0, 15), Add(0, 15)]
    chain = [
        tf.RandomApply([tf.RandomApply(inner, p=1.0), Add(0, 15)], p=1.0),
        Add(0, 15),
        tf.RandomChoice([Add(0, 15)]),
    ]
    rng = BatchRng(4, np.zeros(50, np.int64), np.arange(50), 0)
    records = tf.Records(np.arange(50), *(np.full(50, side) for side in SIZE), None)
    drawn = [
        values
        for place, transform in enumerate(chain)
        for values in feeds(transform.draw(rng.spawn(place + 1), records)).values()
        if values.dtype == np.int64  # no mask, and no index
    ]
    assert len(drawn) == 5
    for number, one in enumerate(drawn):
        for other in drawn[:number]:
            assert np.mean(one == other) < 0.3
    assert gained(pictures, chain) == np.sum(drawn, axis=0).tolist()


def test_compose_is_a_list(pictures: Manifest) -> None:
    inside = tf.Compose([Add(2, 2), tf.Compose([Add(10, 10)])])
    assert set(gained(pictures, [inside])) == {12}
    with Loader(
        pictures, transforms=tf.Compose([tf.Resize(8), tf.CenterCrop(8)]), batch_size=8
    ) as loader:
        assert loader.batch(0)["image"].shape == (8, 3, 8, 8)


def test_a_part_that_draws_too_much_says_so() -> None:
    rng = BatchRng(0, np.zeros(1, np.int64), np.arange(1), 0)
    one, other = rng.parts(2)
    one.uniform(size=60_000)
    with pytest.raises(ConfigError, match="inside another drew more random words"):
        one.uniform(size=60_000)
    assert other.uniform() != rng.spawn(0).uniform()
    with pytest.raises(ConfigError, match="drew more than 262144 random words"):
        rng.spawn(0).uniform(size=140_000)


def upside_down(picture: np.ndarray) -> np.ndarray:
    return picture[::-1].copy()


def test_a_function_is_called_on_the_host(pictures: Manifest) -> None:
    plain = feed(pictures, [])
    turned = feed(pictures, [tf.Lambda(upside_down)])
    both = feed(pictures, [tf.RandomHorizontalFlip(1.0), tf.Lambda(upside_down), Add(1, 1)])
    later = feed(
        pictures, [tf.Lambda(upside_down), tf.Lambda(upside_down), tf.RandomHorizontalFlip(1.0)]
    )
    for key, image in plain.items():
        np.testing.assert_array_equal(turned[key], image[::-1])
        np.testing.assert_array_equal(both[key], np.minimum(image[::-1, ::-1] + 1, 255))
        np.testing.assert_array_equal(later[key], image[:, ::-1])


def named(picture: np.ndarray) -> Any:
    return picture.astype(np.float32)


def made_inside() -> Any:
    def inner(picture: np.ndarray) -> np.ndarray:
        return picture

    return inner


BROKEN = {
    "a lambda": (lambda: tf.Lambda(lambda x: x), r'pass name="..."'),
    "no function": (lambda: tf.Lambda(3), "function is 3"),  # type: ignore[arg-type]
    "geometry inside": (lambda: tf.RandomApply([tf.Resize(3)]), "Resize, which moves pixels"),
    "no transform": (lambda: tf.RandomApply([Add]), "takes pixel transforms"),
    "no list": (lambda: tf.RandomApply(None), "takes a list of pixel transforms"),
    "no choices": (lambda: tf.RandomChoice(None), "it must be a list"),
    "infinite": (lambda: tf.RandomChoice([Add(1, 1)], p=[float("inf")]), "it must be 1 numbers"),
    "one weight": (lambda: tf.RandomChoice([Add(1, 1)], p=0.5), "it must be 1 numbers"),
    "a closure": (lambda: tf.Lambda(made_inside()), r'pass name="..."'),
    "nothing inside": (lambda: tf.RandomApply([]), "has no transform"),
    "no choice": (lambda: tf.RandomChoice([]), "has no transform"),
    "weights": (lambda: tf.RandomChoice([Add(1, 1)], p=[1, 2]), "it must be 1 numbers"),
    "no weight": (lambda: tf.RandomChoice([Add(1, 1)], p=[0]), "not all 0"),
    "p": (lambda: tf.RandomApply([Add(1, 1)], p=1.5), "p is 1.5"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_wrong_arguments_are_named(name: str) -> None:
    call, message = BROKEN[name]
    with pytest.raises(ConfigError, match=message):
        call()


def test_what_a_function_returns_is_checked(pictures: Manifest) -> None:
    with pytest.raises(ConfigError, match=r"Lambda\(.*named\) returned float32 \(20, 24, 3\)"):
        feed(pictures, [tf.Lambda(named)])


def test_an_error_in_a_function_is_told_with_its_record(pictures: Manifest) -> None:
    message = r"Lambda\(.*mistaken\) failed for record 0 \(.*\) in batch 0: .*own mistake"
    with pytest.raises(gpufeed.TransformError, match=message) as caught:
        feed(pictures, [tf.Lambda(mistaken)], num_threads=1)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def mistaken(picture: np.ndarray) -> np.ndarray:
    raise ZeroDivisionError("own mistake")


def contiguous(picture: np.ndarray) -> np.ndarray:
    assert picture.flags.c_contiguous
    return picture


def test_a_function_gets_pictures_that_lie_in_order(pictures: Manifest) -> None:
    """Also after a flip, which costs nothing by turning the order round."""
    feed(pictures, [tf.RandomHorizontalFlip(0.5), tf.Lambda(contiguous)])


def test_transforms_can_be_copied() -> None:
    for transform in (
        tf.RandomChoice([tf.RandomInvert(), tf.RandomEqualize()], p=[0.1, 0.3]),
        tf.RandomChoice([tf.MixUp(), tf.CutMix()]),
        tf.RandomApply([tf.ColorJitter(0.1)]),
        tf.TimmRandAugment(),
        tf.TenCrop(8),
    ):
        for other in (pickle.loads(pickle.dumps(transform)), copy.deepcopy(transform)):  # noqa: S301
            assert other.identity == transform.identity


@pytest.mark.parametrize("p", [None, [1, 2], [0.1, 0.3], [3, 0]])
def test_containers_are_made_again_from_their_fingerprint(p: Any) -> None:
    chain = [
        tf.Resize((8, 8)),
        tf.RandomChoice([[tf.RandomInvert(), tf.JPEG(40)], tf.RandomEqualize()], p=p),
        tf.RandomApply([tf.GaussianBlur(3)], p=0.3),
        tf.TenCrop((4, 4)),
        tf.Normalize(),
        tf.RandomChoice([tf.MixUp(0.3), tf.CutMix()], p=p),
    ]
    text = encode([each.identity for each in chain])
    made = rebuild_transforms(text)
    assert isinstance(made, list)
    assert encode([each.identity for each in made]) == text


def test_a_function_after_operators_is_refused(pictures: Manifest) -> None:
    for before in (Add(1, 1), tf.RandomRotation(3)):
        with pytest.raises(ConfigError, match=r"Lambda\(.*upside_down\) runs with .*; move it, or"):
            feed(pictures, [before, tf.Lambda(upside_down)])


def test_fingerprints_tell_what_is_inside(pictures: Manifest) -> None:
    def text(*chain: Any) -> str:
        chain = (tf.Resize(SIZE), *chain, UINT8)
        with Loader(pictures, transforms=chain, batch_size=8, device="cpu") as loader:
            return str(loader.state_dict()["fingerprints"]["transforms"])

    grey = tf.Lambda(upside_down)
    told = {
        text(tf.RandomApply([Add(1, 1)])),
        text(tf.RandomApply([Add(1, 2)])),
        text(tf.RandomApply([Add(1, 1)], p=0.1)),
        text(tf.RandomChoice([Add(1, 1)])),
        text(tf.RandomChoice([[Add(1, 1), Add(1, 1)]])),
        text(grey),
        text(tf.Lambda(upside_down, name="other")),
    }
    assert len(told) == 7
