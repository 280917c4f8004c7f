"""Laws of batches over a mesh of four devices, which tests/conftest.py has JAX simulate."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from gpufeed import ConfigError, Manifest, ShardOptions
from gpufeed import transforms as tf
from gpufeed.adapters import make_adapter
from gpufeed.engine.device import Device
from tests.support.loaders import digest, make

DEVICES = np.array(jax.devices("cpu"))
assert len(DEVICES) == 4
ROWS = NamedSharding(Mesh(DEVICES, ("data",)), P("data"))
SHARDINGS = {
    "rows": ROWS,
    "two axes": NamedSharding(Mesh(DEVICES.reshape(2, 2), ("a", "b")), P(("a", "b"))),
    "rows and replicas": NamedSharding(Mesh(DEVICES.reshape(2, 2), ("data", "model")), P("data")),
    "any order": NamedSharding(Mesh(DEVICES[[2, 0, 3, 1]], ("data",)), P("data")),
    "replicas": NamedSharding(Mesh(DEVICES, ("data",)), P()),
    "one device": NamedSharding(Mesh(DEVICES[2:3], ("data",)), P("data")),
    "DALI's device": NamedSharding(Mesh(DEVICES[:1], ("data",)), P("data")),
}
ALL: dict[str, Any] = {
    "transforms": [tf.Resize((24, 24)), tf.RandomHorizontalFlip(), tf.Normalize()],
    "targets": ("boxes",),
    "columns": ("width",),
    "collate_fn": "pad",
    "last_batch": "pad",
    "ledger": "pixels",
}
"""What adds arrays to a batch."""


def arrays(batch: dict[str, Any]) -> list[jax.Array]:
    return jax.tree.leaves(batch)


def address(part: jax.Array) -> int:
    return part.unsafe_buffer_pointer()


@pytest.mark.parametrize("sharding", SHARDINGS.values(), ids=SHARDINGS)
def test_batches_are_those_of_one_device(pictures: Manifest, sharding: NamedSharding) -> None:
    with (
        make(pictures, framework="jax", **ALL) as one,
        make(pictures, framework="jax", sharding=sharding, **ALL) as loader,
    ):
        for wanted, batch in zip(one, loader, strict=True):
            assert all(each.sharding == sharding for each in arrays(batch))
            assert digest(batch) == digest(wanted)
            for name, values in batch.items():
                for part in values.addressable_shards:
                    np.testing.assert_array_equal(part.data, np.asarray(wanted[name])[part.index])
            assert loader.rows(batch).equals(one.rows(wanted))
        assert digest(loader.batch(3)) == digest(one.batch(3))
        assert loader.ledger.digest(0) == one.ledger.digest(0)
        assert loader.state_dict() == one.state_dict()


def test_all_views_are_sharded(pictures: Manifest) -> None:
    views = tf.Views([[tf.RandomResizedCrop(24)], [tf.Resize((16, 16))]])
    with make(pictures, framework="jax", sharding=ROWS, transforms=views) as loader:
        batch = loader.batch(0)
    assert [image.shape for image in batch["image"]] == [(8, 24, 24, 3), (8, 16, 16, 3)]
    assert all(each.sharding == ROWS for each in arrays(batch))


@pytest.mark.parametrize("name", ["rows", "any order", "replicas", "DALI's device"])
def test_images_are_not_copied(
    pictures: Manifest, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is where DALI wrote it; only replicas, and another device alone, have their own."""
    seen: list[int] = []
    with make(pictures, framework="jax", sharding=SHARDINGS[name]) as loader:
        hand_over = loader._adapter.images

        def noted(tensor: Any, parts: int) -> Any:
            seen.append(tensor.data_ptr())
            return hand_over(tensor, parts)

        monkeypatch.setattr(loader._adapter, "images", noted)
        for batch in loader:
            image = batch["image"]
            starts = {
                address(part.data) - (part.index[0].start or 0) * image[0].nbytes
                for part in image.addressable_shards
            }
            assert seen[-1] in starts
            assert len(starts) == 1 or name == "replicas"


def test_kept_batches_stay_as_they_are(pictures: Manifest) -> None:
    """While later ones are made, and after loader and pipeline are gone."""
    loader = make(pictures, framework="jax", sharding=ROWS)
    kept = [(batch, digest(batch)) for _ in range(3) for batch in loader]
    loader.close()
    del loader
    assert all(digest(batch) == before for batch, before in kept)


def refusal(manifest: Manifest, **options: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        make(manifest, **{"framework": "jax", "sharding": ROWS, **options})
    return str(refused.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"framework": "torch"}, "framework is 'torch'; sharding goes with framework=\"jax\""),
        ({"sharding": "data"}, "sharding is 'data'; it must be a NamedSharding that divides"),
        ({"sharding": SingleDeviceSharding(DEVICES[0])}, "it must be a NamedSharding"),
        (
            {"sharding": NamedSharding(ROWS.mesh, P(None, "data"))},
            "it must be a NamedSharding that divides the first dimension alone, such as",
        ),
        ({"batch_size": 6}, "batch_size is 6, but sharding divides the records of this process "),
        ({"batch_size": 6}, "into 4 equal parts; use a multiple of 4"),
        ({"batch_size": "6"}, "batch_size is '6'; it must be an integer"),
        (
            {"shard": ShardOptions(1, 2)},
            "shard is ShardOptions(shard_index=1, shard_count=2), but sharding gives this process "
            "ShardOptions(shard_index=0, shard_count=1); leave out shard",
        ),
        ({"last_batch": "partial"}, 'last_batch is "partial", but with sharding all batches must'),
        ({"targets": ("boxes",)}, 'pass collate_fn="pad" for boxes, and otherwise leave it out'),
        ({"collate_fn": list}, "neither lists of boxes nor single records for a function"),
    ],
)
def test_what_cannot_be_is_said(pictures: Manifest, options: Any, said: str) -> None:
    assert said in refusal(pictures, **options)


def test_a_shard_that_says_the_same_is_taken(pictures: Manifest) -> None:
    make(pictures, framework="jax", sharding=ROWS, shard=ShardOptions())


def test_dali_makes_batches_on_one_gpu() -> None:
    said = (
        "DALI makes batches on cuda:0, but in this process sharding has ['cpu:0', 'cpu:1', "
        "'cpu:2', 'cpu:3']; start one process for each GPU, or pass device=\"cpu\""
    )
    with pytest.raises(ConfigError, match=re.escape(said)):
        make_adapter("jax", Device(0), ROWS)
