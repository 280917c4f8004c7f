"""Adapters: training on their batches, what is refused, and the device of each process."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import gpufeed
from gpufeed import IndexSampler, Loader, Manifest, MissingExtraError
from gpufeed import transforms as tf
from gpufeed.open import budget

CHAIN = [tf.RandomResizedCrop(24), tf.RandomHorizontalFlip(), tf.Normalize()]
FRAMEWORKS = ["numpy", "torch", "jax"]


def make(manifest: Manifest, framework: str, **options: Any) -> Loader:
    settled = {
        "sampler": IndexSampler(len(manifest), shuffle=True, seed=3),
        "transforms": CHAIN,
        "batch_size": 8,
        "device": "cpu",
        "last_batch": "pad",
        "framework": framework,
    }
    return Loader(manifest, **{**settled, **options})


def test_torch_can_train_on_a_batch(pictures: Manifest) -> None:
    import torch

    with make(pictures, "torch") as loader:
        batch = loader.batch(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 24 * 24, 3))
    loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
    loss.backward()
    assert torch.isfinite(loss)
    batch["image"].add_(1)


def test_jax_can_train_on_a_batch(pictures: Manifest) -> None:
    import jax
    import jax.numpy as jnp

    with make(pictures, "jax") as loader:
        batch = loader.batch(0)

    @jax.jit
    def loss(weights: jax.Array, batch: dict[str, jax.Array]) -> jax.Array:
        logits = batch["image"].reshape(8, -1) @ weights
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["label"][:, None], axis=1)
        return -(chosen[:, 0] * batch["valid"]).mean()

    assert bool(jnp.isfinite(jax.grad(loss)(jnp.zeros((3 * 24 * 24, 3)), batch)).all())


def test_numbers_too_large_for_jax_are_an_error() -> None:
    from gpufeed.adapters import make_adapter
    from gpufeed.engine.device import Device

    adapter = make_adapter("jax", Device(None))
    with pytest.raises(gpufeed.ConfigError, match="2147483648 does not fit in JAX's int32"):
        adapter.numbers(np.array([2**31]))


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_missing_framework_is_named_with_its_extra(
    pictures: Manifest, framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, framework, None)  # as if it were not installed
    message = rf'{framework} is not installed; run: pip install "gpufeed\[{framework}\]"'
    with pytest.raises(MissingExtraError, match=message):
        make(pictures, framework)
    with pytest.raises(MissingExtraError, match=message):
        getattr(gpufeed, f"shard_from_{framework}")()


def test_several_processes_that_do_not_know_of_each_other_are_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(
        gpufeed.ConfigError, match=r"WORLD_SIZE is 4, but torch.distributed is not init"
    ):
        gpufeed.shard_from_torch()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert gpufeed.shard_from_torch() == gpufeed.ShardOptions(0, 1)


@pytest.mark.parametrize(
    ("environ", "gpus", "name", "index"),
    [
        ({}, 4, "auto", 0),
        ({"LOCAL_RANK": "2"}, 4, "auto", 2),
        ({"LOCAL_RANK": "2"}, 4, "cuda", 2),
        ({"LOCAL_RANK": "2"}, 4, "cuda:1", 1),
        ({"LOCAL_RANK": "2"}, 4, "cpu", None),
        ({"LOCAL_RANK": "2"}, 0, "auto", None),
        ({"LOCAL_RANK": "2"}, 1, "cuda", 0),  # its launcher shows each process its own GPU only
        ({"SLURM_LOCALID": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, 4, "auto", 1),
        ({"LOCAL_RANK": "x", "SLURM_LOCALID": "3"}, 4, "auto", 3),
    ],
)
def test_each_process_of_a_machine_takes_its_own_gpu(
    environ: dict[str, str],
    gpus: int,
    name: str,
    index: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gpufeed.engine import device

    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(device, "gpu_count", lambda: gpus)
    assert device.resolve_device(name).gpu == index


@pytest.mark.parametrize(
    ("current", "environ", "gpus", "name", "index"),
    [
        (None, {"LOCAL_RANK": "2"}, 4, "auto", 2),  # torch has not started CUDA
        (3, {}, 4, "cuda", 3),  # as after mp.spawn or in a notebook
        (3, {}, 4, "auto", 3),
        (3, {}, 4, "cuda:1", 1),
        (3, {}, 4, "cpu", None),
        (3, {"LOCAL_RANK": "2"}, 4, "cuda", 3),  # which somebody has set
        (0, {"LOCAL_RANK": "2"}, 4, "cuda", 2),  # where torch starts
        (0, {}, 4, "cuda", 0),
    ],
)
def test_a_process_takes_the_gpu_that_torch_was_set_to(
    current: int | None,
    environ: dict[str, str],
    gpus: int,
    name: str,
    index: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gpufeed.engine import device

    def current_device() -> int | None:
        assert current is not None, "this would start CUDA"
        return current

    cuda = SimpleNamespace(
        is_initialized=lambda: current is not None, current_device=current_device
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(device, "gpu_count", lambda: gpus)
    assert device.resolve_device(name).gpu == index
    # Neither a torch that is being imported nor none is asked.
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    device.resolve_device(name)
    monkeypatch.delitem(sys.modules, "torch")
    device.resolve_device(name)
    assert "torch" not in sys.modules


@pytest.mark.parametrize(("name", "index"), [("auto", None), ("cuda", 0), ("cuda:1", 1)])
def test_numpy_takes_a_gpu_only_if_it_is_asked_to(
    name: str, index: int | None, pictures: gpufeed.Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpufeed.engine import device

    monkeypatch.setattr(device, "gpu_count", lambda: 2)
    monkeypatch.setattr(budget, "free_gpu_memory", lambda _: 80 << 30)
    with make(pictures, "numpy", device=name) as loader:
        assert loader.device.gpu == index


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:1"])
def test_a_torch_device_is_the_device_of_its_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from gpufeed.engine import device

    monkeypatch.setattr(device, "gpu_count", lambda: 2)
    found = device.resolve_device(torch.device(name))
    assert found == device.resolve_device(name)
    assert torch.device(found) == torch.device(
        name if ":" in name else name.replace("cuda", "cuda:0")
    )
    copied = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert (copied, copied.gpu) == (found, found.gpu)
    with pytest.raises(gpufeed.ConfigError, match=r"device is device\(type='meta'\); it must be"):
        device.resolve_device(torch.device("meta"))


def test_a_local_rank_without_a_gpu_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpufeed.engine import device

    monkeypatch.setenv("LOCAL_RANK", "4")
    monkeypatch.setattr(device, "gpu_count", lambda: 4)
    with pytest.raises(gpufeed.DeviceError, match="device is 'auto', but DALI sees 4 GPU"):
        device.resolve_device("auto")


def test_a_missing_extra_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(MissingExtraError("jax", extra="jax")))  # noqa: S301
    assert str(error) == 'jax is not installed; run: pip install "gpufeed[jax]"'
    assert (error.package, error.extra) == ("jax", "jax")


# ----------------------------------------------------------------------------- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_gpu_batch_is_near_the_cpus(pictures: Manifest, framework: str) -> None:
    """The same windows and flips; decoders and filters may round differently by a few levels.

    At the rim they differ more: where a filter reaches out of its window, DALI repeats the edge.
    """
    chain = gpufeed.presets.train(24, dtype="uint8")
    with (
        make(pictures, "numpy", transforms=chain) as cpu,
        make(pictures, framework, transforms=chain, device="cuda") as gpu,
    ):
        for step in range(len(cpu)):
            wanted, batch = cpu.batch(step), gpu.batch(step)
            image = batch["image"]
            if framework == "torch":
                assert image.is_cuda
                assert batch["label"].is_cuda
                image = image.cpu()
            elif framework == "jax":
                assert next(iter(image.devices())).platform == "gpu"
            apart = np.abs(np.asarray(image).astype(int) - wanted["image"])[..., 1:-1, 1:-1]
            assert apart.mean() < 1.0
            assert np.percentile(apart, 99) <= 4
            np.testing.assert_array_equal(gpu.rows(batch)["path"], cpu.rows(wanted)["path"])


@pytest.mark.gpu
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_record_looks_the_same_in_any_gpu_batch(pictures: Manifest, framework: str) -> None:
    def by_record(batch_size: int) -> dict[int, bytes]:
        options = {"batch_size": batch_size, "device": "cuda", "last_batch": "partial"}
        with make(pictures, framework, **options) as loader:
            return {
                int(key): np.asarray(image.cpu() if framework == "torch" else image).tobytes()
                for batch in loader
                for key, image in zip(batch["record_key"], batch["image"], strict=True)
            }

    assert by_record(8) == by_record(5) == by_record(50)


@pytest.mark.gpu
def test_a_photo_looks_the_same_in_any_gpu_batch(testdata: Path) -> None:
    """Which it would not with two decoders at work, of which a batch decides who gets it."""
    names = sorted(str(path.relative_to(testdata)) for path in (testdata / "photos").rglob("*.jpg"))
    table = pl.DataFrame({"path": names, "label": [0] * len(names)})
    photos = gpufeed.read_table(table, root=testdata)

    def by_record(batch_size: int) -> dict[int, bytes]:
        with make(
            photos, "numpy", batch_size=batch_size, device="cuda", last_batch="pad"
        ) as loader:
            return {
                int(key): image.tobytes()
                for batch in loader
                for key, image in zip(batch["record_key"], batch["image"], strict=True)
            }

    assert by_record(8) == by_record(5) == by_record(50)
