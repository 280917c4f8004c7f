"""`loader.record(key)` is the record's row in the batch that contains it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gpufeed
from gpufeed import ConfigError, DecodeError, IndexSampler, Loader, Manifest, ShardOptions
from gpufeed import transforms as tf
from tests.support.loaders import make

BOXED = {"targets": ("boxes",), "columns": ["path"]}
LATE = [tf.RandomResizedCrop(16), tf.Normalize(), tf.RandomErasing(), tf.CutMix(group=4)]
VIEWS = tf.Views([[tf.RandomResizedCrop(16)], [tf.RandomAffine(20), tf.Resize((8, 8))]])


def same(one: Any, other: Any) -> None:
    """Whatever the framework, lists of views and boxes included."""
    if isinstance(one, list):
        assert isinstance(other, list)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, str):
        assert one == other
    else:
        assert type(one) is type(other)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def row(batch: dict[str, Any], place: int, several: set[str]) -> dict[str, Any]:
    return {
        name: [view[place] for view in values] if name in several else values[place]
        for name, values in batch.items()
    }


def check(loader: Loader, batch: dict[str, Any], several: set[str] = frozenset()) -> None:
    for place, key in enumerate(np.asarray(batch["record_key"]).tolist()):
        epoch = int(batch["epoch"][place])
        found, wanted = loader.record(key, epoch=epoch), row(batch, place, several)
        assert found.keys() == wanted.keys()
        for name in found:
            same(found[name], wanted[name])


@pytest.mark.parametrize(
    ("framework", "options", "several"),
    [
        *[(framework, BOXED, set()) for framework in ("numpy", "torch", "jax")],
        *[
            (framework, BOXED | {"collate_fn": "pad", "last_batch": "pad"}, set())
            for framework in ("numpy", "jax")
        ],
        *[
            (framework, {"transforms": VIEWS, **BOXED}, {"image", "boxes", "box_labels"})
            for framework in ("torch", "jax")
        ],
        ("numpy", {"transforms": LATE}, set()),
    ],
)
def test_it_is_the_row_of_its_batch(
    pictures: Manifest, framework: str, options: dict[str, Any], several: set[str]
) -> None:
    """Of the first batch, of one in another epoch, and of one that ends an epoch."""
    with make(pictures, framework=framework, num_threads=1, **options) as loader:
        for step in (0, len(loader) + 2, 2 * len(loader) - 1):
            batch = loader.batch(step)
            if "valid" in batch:  # padding repeats the last record
                count = int(np.asarray(batch["valid"]).sum())
                batch = {name: values[:count] for name, values in batch.items()}
            check(loader, batch, several)


def test_of_any_shard(pictures: Manifest) -> None:
    shards = [make(pictures, transforms=LATE, shard=ShardOptions(index, 2)) for index in range(2)]
    for loader in shards:
        check(shards[0], loader.batch(1))
        loader.close()


@pytest.mark.parametrize(
    "sampler",
    [
        gpufeed.SubsetSampler(50, range(9, 40), shuffle=True),
        gpufeed.WeightedSampler(np.arange(1.0, 51)),
        gpufeed.IndexSampler(50, shuffle=True, epoch_size=25),
        torch.utils.data.RandomSampler(range(50)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_in_any_order(pictures: Manifest, sampler: object) -> None:
    with make(pictures, sampler=sampler) as loader:
        batch = loader.batch(0)
        _, first = np.unique(batch["record_key"], return_index=True)
        check(loader, {name: values[first] for name, values in batch.items()})


def test_of_records_that_repeat_it_is_the_first(pictures: Manifest) -> None:
    sampler = gpufeed.SubsetSampler(50, [3, 3, 7, 3])
    with make(pictures, sampler=sampler, batch_size=4) as loader:
        images = loader.batch(0)["image"]
        found = loader.record(3)["image"]
        np.testing.assert_array_equal(found, images[0])
        assert (found != images[1]).any()


def test_its_epoch_is_the_current_one(pictures: Manifest) -> None:
    with make(pictures) as loader:
        in_epoch = [loader.record(5, epoch=epoch)["image"] for epoch in range(2)]
        assert (in_epoch[0] != in_epoch[1]).any()
        for epoch, wanted in enumerate(in_epoch):
            loader.seek(epoch * len(loader) + 3)
            np.testing.assert_array_equal(loader.record(5)["image"], wanted)
            assert loader.record(5)["epoch"] == epoch
            assert loader.step == epoch * len(loader) + 3
    with Loader.for_evaluation(
        pictures, transforms=gpufeed.presets.evaluate(8), batch_size=8, device="cpu"
    ) as loader:
        list(loader)  # it now stands at the end
        assert loader.record(49)["epoch"] == 0
        assert loader.record(49)["valid"]


def test_a_record_at_a_dropped_end_is_there(pictures: Manifest) -> None:
    with make(pictures) as loader:
        fed = np.concatenate([batch["record_key"] for batch in loader])
        dropped = set(range(50)) - set(fed.tolist())
        with make(pictures, last_batch="partial") as whole:
            batch = whole.batch(len(whole) - 1)
            assert set(batch["record_key"].tolist()) == dropped
            check(loader, batch)


def test_bad_images_go_by_on_error(own_pictures: Manifest) -> None:
    (own_pictures.root / "00003.jpg").write_bytes(b"no image")
    with make(own_pictures) as loader, pytest.raises(DecodeError, match="record 3 "):
        loader.record(3)
    with make(own_pictures, on_error="substitute", max_failures=1) as loader:
        found = loader.record(3)
        assert found["record_key"] != 3
        assert [failure.record_key for failure in loader.quarantine] == [3]
        step, place = divmod(loader.sampler.keys(0, 24).tolist().index(3), 8)
        wanted = row(loader.batch(step), place, set())
        for name in found:
            same(found[name], wanted[name])


def test_what_there_is_not(pictures: Manifest) -> None:
    sampler = gpufeed.SubsetSampler(50, range(9, 40), shuffle=True, num_epochs=2)
    with make(pictures, sampler=sampler) as loader:
        with pytest.raises(ConfigError, match="record 3 does not come in epoch 1 of the sampler"):
            loader.record(3, epoch=1)
        for key in (-1, 50):
            with pytest.raises(IndexError, match=f"key is {key}; there are records 0 to 49"):
                loader.record(key)
        for epoch in (-1, 2):
            with pytest.raises(IndexError, match=f"epoch is {epoch}; there are epochs 0 to 1"):
                loader.record(9, epoch=epoch)
    loader = make(pictures, sampler=torch.utils.data.RandomSampler(range(50)))
    with pytest.raises(ConfigError, match="the order of epoch 4 is not available"):
        loader.record(9, epoch=4)


def test_a_loop_goes_on_around_it(pictures: Manifest) -> None:
    with make(pictures, sampler=IndexSampler(50, shuffle=True, seed=3)) as loader:
        expected = [batch["image"].tobytes() for batch in loader]
        loader.seek(0)
        for batch, wanted in zip(loader, expected, strict=True):
            loader.record(int(batch["record_key"][0]), epoch=0)
            assert batch["image"].tobytes() == wanted
