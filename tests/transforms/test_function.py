"""Random functions of the user's: each visit to a record has random numbers of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gpufeed
from gpufeed import ConfigError, IndexSampler, Manifest
from gpufeed import transforms as tf
from gpufeed.rng import philox4x32
from tests.support.loaders import make

Pixels = npt.NDArray[np.uint8]
SEED, BATCH = 7, 8
FIRST = [tf.RandomResizedCrop(20), tf.RandomHorizontalFlip()]
UINT8 = tf.ToDtype("uint8", layout="NHWC")


def noise(image: Pixels, rng: np.random.Generator) -> Pixels:
    return np.clip(image + rng.normal(0, 20, image.shape), 0, 255).astype(np.uint8)


def window(image: Pixels, rng: np.random.Generator) -> Pixels:
    top, left = rng.integers(0, 8), rng.integers(0, 12)
    return image[top : top + 13, left : left + 9]


def number(image: Pixels, rng: np.random.Generator) -> Pixels:
    return np.full_like(image, rng.integers(256))


def loader_of(manifest: Manifest, *chain: Any, **options: Any) -> gpufeed.Loader:
    options = {"sampler": IndexSampler(len(manifest), shuffle=True, seed=SEED), **options}
    return make(manifest, transforms=[*FIRST, *chain, UINT8], batch_size=BATCH, **options)


def batches(loader: gpufeed.Loader, steps: range) -> list[Any]:
    with loader:
        return [np.array(loader.batch(step)["image"]) for step in steps]


def generator(key: int, epoch: int, place: int) -> np.random.Generator:
    """As it is documented: of the four words of Philox at the address of the visit."""
    counter = [key & 0xFFFFFFFF, key >> 32, epoch, place << 16]
    words = philox4x32(np.array(counter, np.uint64)[:, None], (SEED, 0))[0].tolist()
    own = np.array([words[0] | words[1] << 32, words[2] | words[3] << 32], np.uint64)
    return np.random.Generator(np.random.Philox(key=own))


def test_a_plain_loop_gives_the_same(pictures: Manifest) -> None:
    """Two functions in one list, the second of another size, and a flip after them."""
    chain = [tf.Lambda(noise, random=True), tf.Lambda(window, random=True, size=(13, 9))]
    steps = range(2, 15)  # three epochs
    plain = batches(loader_of(pictures), steps)
    with loader_of(pictures, *chain, tf.RandomVerticalFlip(1.0)) as loader:
        for step, images in zip(steps, plain, strict=True):
            batch = loader.batch(step)
            assert batch["image"].shape == (BATCH, 13, 9, 3)
            for row, image in enumerate(images):
                key, epoch = int(batch["record_key"][row]), int(batch["epoch"][row])
                expected = window(noise(image, generator(key, epoch, 2)), generator(key, epoch, 3))
                np.testing.assert_array_equal(batch["image"][row], expected[::-1])


@pytest.mark.parametrize("options", [{"num_threads": 1}, {"num_threads": 5, "prefetch": 4}])
def test_iterating_gives_the_same_bytes(pictures: Manifest, options: dict[str, Any]) -> None:
    chain = [tf.Lambda(noise, random=True)]
    expected = batches(loader_of(pictures, *chain), range(6))
    with loader_of(pictures, *chain, **options) as loader:
        got = [np.array(batch["image"]) for batch in loader]
        np.testing.assert_array_equal(got, expected)
        state = json.dumps(loader.state_dict())
    np.testing.assert_array_equal(got, expected)
    with loader_of(pictures, *chain, **options) as resumed:
        resumed.load_state_dict(json.loads(state))
        following = np.array(next(iter(resumed))["image"])
    np.testing.assert_array_equal(following, batches(loader_of(pictures, *chain), range(6, 7))[0])


def test_shards_see_what_one_process_sees(pictures: Manifest) -> None:
    chain = [tf.Lambda(noise, random=True)]
    whole = batches(loader_of(pictures, *chain), range(3))
    halves = [
        batches(
            make(
                pictures,
                sampler=IndexSampler(len(pictures), shuffle=True, seed=SEED),
                transforms=[*FIRST, *chain, UINT8],
                batch_size=BATCH // 2,
                shard=gpufeed.ShardOptions(index, 2),
            ),
            range(3),
        )
        for index in range(2)
    ]
    np.testing.assert_array_equal(np.concatenate(halves, axis=1), whole)


def test_draws_are_apart(pictures: Manifest) -> None:
    """Those of records, epochs, views and functions; those before FiveCrop are of all its views."""
    call = tf.Lambda(number, random=True)
    one = [*FIRST, call, UINT8]
    with make(pictures, transforms=tf.Views([one, one]), batch_size=48) as loader:
        epochs = [loader.batch(step)["image"] for step in range(2)]
        drawn = [np.array(view)[:, 0, 0, 0] for views in epochs for view in views]
    for place, values in enumerate(drawn):
        assert len(set(values.tolist())) > 30
        for other in drawn[:place]:
            assert np.mean(values == other) < 0.1
    with make(pictures, transforms=[*FIRST, call, tf.FiveCrop(8), UINT8]) as loader:
        views = loader.batch(0)["image"]
    assert all(np.array_equal(view, views[0]) for view in views)


def test_a_substitute_draws_as_the_record_that_it_replaces(own_pictures: Manifest) -> None:
    chain = [tf.Resize((8, 8)), tf.Lambda(number, random=True), UINT8]
    options: dict[str, Any] = {"transforms": chain, "on_error": "substitute", "max_failures": 5}
    with make(own_pictures, **options) as loader:
        whole = np.array(loader.batch(0)["image"])
        bad = int(loader.batch(0)["record_key"][3])
    own_pictures.root.joinpath(own_pictures.frame["path"][bad]).write_bytes(b"")
    with make(own_pictures, **options) as loader:
        np.testing.assert_array_equal(loader.batch(0)["image"], whole)
        assert len(loader.quarantine) == 1


def test_a_size_of_its_own_comes_without_random_numbers_too(pictures: Manifest) -> None:
    chain = [tf.Lambda(np.rot90, size=(30, 20), name="rot90")]
    rest = [tf.Resize((15, 10)), tf.CenterCrop((12, 16))]
    with make(pictures, transforms=[tf.Resize((20, 30)), *chain, UINT8]) as loader:
        turned = np.array(loader.batch(0)["image"])
    with make(pictures, transforms=[tf.Resize((20, 30)), UINT8]) as loader:
        np.testing.assert_array_equal(turned, np.rot90(loader.batch(0)["image"], axes=(1, 2)))
    with make(pictures, transforms=[tf.Resize((20, 30)), *chain, *rest, UINT8]) as loader:
        after = loader.batch(0)["image"]
        assert after.shape == (8, 12, 16, 3)
        assert not after[:, :, [0, 1, 2, 13, 14, 15]].any()  # padding
        assert after[:, :, 3:13].any(axis=(1, 2, 3)).all()


def two(image: Pixels) -> Pixels:
    return image[:2, :2]


def nothing(image: Pixels) -> Any:
    return None


def test_what_is_wrong_is_named(pictures: Manifest) -> None:
    wrong: list[tuple[tf.Lambda, str]] = [
        (tf.Lambda(nothing), r"nothing\) returned <class 'NoneType'> for .*return a NumPy array"),
        (tf.Lambda(two), r"two\) returned uint8 \(2, 2, 3\) for .*or be given the size that it"),
        (tf.Lambda(two, size=3), r"two\) returned uint8 \(2, 2, 3\) .* uint8 \(3, 3, 3\), as its"),
    ]
    for call, message in wrong:
        with loader_of(pictures, call) as loader, pytest.raises(ConfigError, match=message):
            loader.batch(0)
    with (
        loader_of(pictures, tf.Lambda(two, random=True, name="mine")) as loader,
        pytest.raises(gpufeed.TransformError, match=r"Lambda\(mine\) failed for record .*TypeErr"),
    ):
        loader.batch(0)
    with pytest.raises(ConfigError, match="size is 0; it must be an integer of 1 or more"):
        tf.Lambda(two, size=0)
    with pytest.raises(ConfigError, match=r"targets has \['boxes'\], but Lambda moves or mixes"):
        loader_of(pictures, tf.Lambda(two, size=2), targets=["boxes"])
    loader_of(pictures, tf.Lambda(noise, random=True), targets=["boxes"]).close()


def test_the_documented_function_runs(pictures: Manifest) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "transforms.md").read_text()
    (code,) = re.findall(
        r"<!-- tests/transforms/test_function.py -->\n\n```python\n(.*?)^```", page, re.M | re.S
    )
    names: dict[str, Any] = {"gpufeed": gpufeed, "__name__": "page"}
    exec(code, names)  # noqa: S102
    crop, noisy, _ = names["transforms"]
    plain, changed = (
        batches(make(pictures, transforms=chain), range(1))[0].astype(float)
        for chain in ([crop], [crop, noisy])
    )
    away = (changed - plain)[(plain > 50) & (plain < 100)]
    assert 1 < away.std() < 60
    assert abs(away.mean()) < 5


def test_fingerprints_tell_random_functions_apart() -> None:
    calls = (tf.Lambda(two), tf.Lambda(two, random=True), tf.Lambda(two, size=2))
    assert len({json.dumps(call.identity) for call in calls}) == 3


class Brighter:
    def __init__(self, by: int) -> None:
        self.by = by

    def apply(self, image: Pixels) -> Pixels:
        return np.minimum(image, 255 - self.by) + np.uint8(self.by)

    @classmethod
    def by_one(cls, image: Pixels) -> Pixels:
        return cls(1).apply(image)


def test_a_method_of_an_object_needs_a_name() -> None:
    """Or a state of one object would load into another."""
    table = np.arange(256, dtype=np.uint8)
    for method in (Brighter(3).apply, Brighter(100).apply, table.take):
        with pytest.raises(ConfigError, match=r'no name of its own .* pass name="\.\.\."'):
            tf.Lambda(method)
    names = [tf.Lambda(Brighter(by).apply, f"brighter by {by}").identity for by in (3, 100)]
    assert names[0] != names[1]
    for function in (Brighter.by_one, np.fliplr, np.copy):
        assert tf.Lambda(function).identity


@pytest.mark.parametrize("good", [True, False])
def test_a_batch_made_twice_shows_who_draws_from_elsewhere(pictures: Manifest, good: bool) -> None:
    """As the page on transforms says."""
    drawn = np.random.default_rng(0)

    def noise(image: Pixels, rng: np.random.Generator) -> Pixels:
        return image ^ (rng if good else drawn).integers(0, 4, image.shape, dtype=np.uint8)

    with loader_of(pictures, tf.Lambda(noise, "noise", random=True)) as loader:
        assert (loader.batch(0)["image"] == loader.batch(0)["image"]).all() == good
