"""Handing batches over, on the CPU and on GPUs: one memory, the same numbers, and no waiting."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
import torch

import gpufeed
from gpufeed import DeviceError, Loader, Manifest
from gpufeed.adapters import jax as jax_adapter
from gpufeed.adapters import make_adapter
from gpufeed.adapters.torch import _MAX_AHEAD, TorchAdapter
from gpufeed.engine import device as devices
from gpufeed.engine.device import Device
from gpufeed.open import budget
from tests.support.loaders import make

FRAMEWORKS = ["numpy", "torch", "jax"]
FIRST_GPU = pytest.param("cuda:0", marks=pytest.mark.gpu)
SECOND_GPU = pytest.param("cuda:1", marks=pytest.mark.gpu(2))
on_both = pytest.mark.parametrize("device", ["cpu", FIRST_GPU])
on_all_devices = pytest.mark.parametrize("device", ["cpu", FIRST_GPU, SECOND_GPU])
in_all_frameworks = pytest.mark.parametrize("framework", FRAMEWORKS)


def host(values: Any) -> np.ndarray:
    return np.asarray(values.cpu() if isinstance(values, torch.Tensor) else values)


def pointer(array: Any) -> int:
    if isinstance(array, np.ndarray):
        return int(array.__array_interface__["data"][0])
    return array.data_ptr() if hasattr(array, "data_ptr") else array.unsafe_buffer_pointer()


def place(array: Any) -> str:
    """The device of an array."""
    if isinstance(array, np.ndarray):
        return "cpu"
    if isinstance(array, torch.Tensor):
        return str(array.device)
    (held,) = array.devices()
    return "cpu" if held.platform == "cpu" else f"cuda:{held.local_hardware_id}"


def watch_pixels(loader: Loader, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note where DALI's own memory is for each batch that is handed over."""
    seen: list[int] = []
    hand_over = type(loader._adapter).images

    def noted(self: Any, tensor: Any, parts: int) -> Any:
        seen.append(tensor.data_ptr())
        return hand_over(self, tensor, parts)

    monkeypatch.setattr(type(loader._adapter), "images", noted)
    return seen


# ----------------------------------------------------------------------------- memory and numbers


@pytest.mark.parametrize(
    ("framework", "device"),
    [
        *((framework, "cpu") for framework in FRAMEWORKS),
        *(pytest.param(each, "cuda:0", marks=pytest.mark.gpu) for each in ("torch", "jax")),
    ],
)
def test_pixels_are_not_copied(
    pictures: Manifest, framework: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(pictures, framework=framework, device=device) as loader:
        seen = watch_pixels(loader, monkeypatch)
        handed = [batch["image"] for batch in (loader.batch(0), *loader)]
    assert [pointer(image) for image in handed] == seen


@on_both
@in_all_frameworks
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_frameworks_see_the_same_numbers(
    pictures: Manifest, framework: str, device: str, dtype: Any, layout: Any
) -> None:
    options: dict[str, Any] = {
        "transforms": gpufeed.presets.train(24, dtype=dtype, layout=layout),
        "device": device,
        "last_batch": "pad",
    }
    with (
        make(pictures, framework="numpy", **options) as plain,
        make(pictures, framework=framework, **options) as loader,
    ):
        wanted, batch = plain.batch(6), loader.batch(6)
    shape = (8, 3, 24, 24) if layout == "NCHW" else (8, 24, 24, 3)
    assert tuple(batch["image"].shape) == shape
    assert str(batch["image"].dtype).removeprefix("torch.") == dtype
    assert set(batch) == {"image", "label", "record_key", "epoch", "valid"}
    for name, values in batch.items():
        np.testing.assert_array_equal(host(values), wanted[name])


@on_all_devices
@pytest.mark.parametrize(
    ("framework", "kinds"),
    [
        ("numpy", {"label": "int32", "record_key": "int64", "epoch": "int64", "valid": "bool"}),
        ("torch", {"label": "int64", "record_key": "int64", "epoch": "int64", "valid": "bool"}),
        ("jax", {"label": "int32", "record_key": "int32", "epoch": "int32", "valid": "bool"}),
    ],
)
def test_arrays_have_the_frameworks_types_and_the_images_device(
    pictures: Manifest, framework: str, kinds: dict[str, str], device: str
) -> None:
    types = {"numpy": np.ndarray, "torch": torch.Tensor, "jax": jax.Array}
    with make(pictures, framework=framework, device=device, last_batch="pad") as loader:
        batch = loader.batch(0)
        assert loader.rows(batch)["label"].to_list() == host(batch["label"]).tolist()
    assert all(isinstance(values, types[framework]) for values in batch.values())
    assert {name: str(batch[name].dtype).removeprefix("torch.") for name in kinds} == kinds
    on_host = {"numpy": set(batch), "torch": {"record_key", "epoch"}, "jax": set[str]()}[framework]
    assert {name: place(values) for name, values in batch.items()} == {
        name: "cpu" if name in on_host else device for name in batch
    }


@on_both
@in_all_frameworks
def test_kept_batches_stay_as_they_are(pictures: Manifest, framework: str, device: str) -> None:
    """While later ones are made, and after loader and pipeline are gone."""
    loader = make(pictures, framework=framework, device=device)
    kept, copies = [], []
    for _ in range(3):
        for batch in loader:
            kept.append(batch["image"])
            copies.append(host(batch["image"]).copy())
    loader.close()
    del loader, batch
    assert len({pointer(image) for image in kept}) == len(kept)
    for image, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(host(image), copy)


@on_all_devices
@in_all_frameworks
def test_any_batch_may_be_made_while_iterating(
    pictures: Manifest, framework: str, device: str
) -> None:
    options = {"framework": framework, "device": device}
    with make(pictures, **options) as loader, make(pictures, **options) as other:
        wanted = [host(batch["image"]).copy() for batch in other]
        for step, batch in enumerate(loader):
            mirrored = len(wanted) - 1 - step
            between = loader.batch(mirrored)
            np.testing.assert_array_equal(host(between["image"]), wanted[mirrored])
            np.testing.assert_array_equal(host(batch["image"]), wanted[step])


# ----------------------------------------------------------------------------- behind a full queue


class Torch:
    """Copies images behind kernels that take a tenth of a second, on a stream of torch."""

    def __init__(self, device: str, stream: str) -> None:
        self._gpu = device != "cpu"
        own = torch.cuda.Stream(device) if self._gpu and stream != "default" else None
        self._copies_on = own if stream == "another" else None
        self._all_on = own if stream == "current" else None
        self._read: torch.cuda.Event | None = None

    def all(self) -> AbstractContextManager[Any]:
        """Where the loop runs, the loader with it."""
        return torch.cuda.stream(self._all_on) if self._all_on else nullcontext()

    @contextmanager
    def _queue(self) -> Iterator[None]:
        if self._copies_on is None:
            yield
            return
        self._copies_on.wait_stream(torch.cuda.current_stream(self._copies_on.device))
        with torch.cuda.stream(self._copies_on):
            yield

    def copy(self, image: torch.Tensor) -> torch.Tensor:
        with self._queue(), torch.cuda.device(image.device) if self._gpu else nullcontext():
            if self._gpu:
                torch.cuda._sleep(200_000_000)  # clock ticks
            copied = image.clone()
            if self._gpu:
                self._read = torch.cuda.current_stream().record_event()
        return copied

    def waits(self) -> bool:
        """Whether the last copy still waits in the queue."""
        return self._read is not None and not self._read.query()


class Jax:
    """Copies images behind a program that takes a tenth of a second, and whose result they need."""

    def __init__(self, device: str, _: str) -> None:
        rounds, side = (4, 8) if device == "cpu" else (10_000, 1024)
        self._zeros = np.zeros((side, side), np.float32)
        self._last: jax.Array | None = None

        def behind(image: jax.Array, zeros: jax.Array) -> jax.Array:
            zeros = jax.lax.fori_loop(0, rounds, lambda _, each: each @ zeros, zeros)
            return image + zeros[0, 0]

        self._behind = jax.jit(behind)

    def all(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def copy(self, image: jax.Array) -> jax.Array:
        (held,) = image.devices()
        if isinstance(self._zeros, np.ndarray):
            self._zeros = jax.device_put(self._zeros, held)
        self._last = self._behind(image, self._zeros)
        return self._last

    def waits(self) -> bool:
        return self._last is not None and not self._last.is_ready()  # type: ignore[attr-defined]


CONSUMERS: dict[str, Any] = {"torch": Torch, "jax": Jax}


@on_all_devices
@pytest.mark.parametrize(
    ("framework", "stream"),
    [("torch", "default"), ("torch", "current"), ("torch", "another"), ("jax", "its own")],
)
def test_memory_is_not_reused_before_its_readers_are_done(
    pictures: Manifest, framework: str, stream: str, device: str
) -> None:
    """Each image is dropped while its copy still waits, and later ones are made meanwhile."""
    consumer = CONSUMERS[framework](device, stream)
    copies, places, waited = [], [], []
    with make(pictures, framework=framework, device=device, prefetch=1) as loader:
        with consumer.all():
            for _ in range(5):
                for batch in loader:
                    waited.append(consumer.waits())
                    places.append(pointer(batch["image"]))
                    copies.append(consumer.copy(batch["image"]))
                    del batch
        for step, copy in enumerate(copies):
            np.testing.assert_array_equal(host(copy), host(loader.batch(step)["image"]))
    if device != "cpu":  # otherwise nothing was put to the proof
        assert any(waited)
        assert len(set(places)) < len(places)


@pytest.mark.gpu
@pytest.mark.parametrize("framework", CONSUMERS)
def test_a_batch_does_not_wait_for_its_consumers_kernels(
    pictures: Manifest, framework: str
) -> None:
    options: dict[str, Any] = {"targets": ["boxes"], "collate_fn": "pad", "last_batch": "pad"}
    consumer = CONSUMERS[framework]("cuda:0", "default")
    with make(pictures, framework=framework, device="cuda:0", **options) as loader:
        for batch in loader:  # compiles, and fills the pools of memory
            host(consumer.copy(batch["image"]))
        batches = iter(loader)
        batch = next(batches)
        copies = [consumer.copy(batch["image"]) for _ in range(5)]
        next(batches)
        assert consumer.waits()
    assert len({host(copy).tobytes() for copy in copies}) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("framework", CONSUMERS)
def test_the_consumers_kernels_are_not_counted_as_waiting(
    pictures: Manifest, framework: str
) -> None:
    consumer = CONSUMERS[framework]("cuda:0", "default")
    with make(pictures, framework=framework, device="cuda:0") as loader:
        for batch in loader:
            host(consumer.copy(batch["image"]))
        copies = deque[Any]()
        for batch in itertools.islice(loader.forever(), 24):
            copies.append(consumer.copy(batch["image"]))
            if len(copies) > 2:  # as a loop does that prints its loss two steps late
                host(copies.popleft())
        assert loader.stats.batches == 24
        assert loader.stats.waiting_share < 0.5


# ----------------------------------------------------------------------------- at CUDA's border


def test_small_arrays_go_to_a_gpu_from_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other copy waits for what the consumer has queued."""
    pinned: list[torch.Tensor] = []

    def pin_memory(self: torch.Tensor) -> torch.Tensor:
        pinned.append(self.clone())
        return pinned[-1]

    def to(self: torch.Tensor, device: torch.device, *, non_blocking: bool) -> torch.Tensor:
        assert any(self is each for each in pinned)
        assert (str(device), non_blocking) == ("cuda:1", True)
        return self

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(torch.Tensor, "to", to)
    adapter = TorchAdapter(torch.device("cuda:1"))
    labels, boxes = np.array([3, 1], np.int32), np.arange(8, dtype=np.float32).reshape(2, 4)
    assert adapter.arrays(labels).tolist() == [3, 1]
    assert adapter.arrays(labels).dtype == torch.int64
    assert adapter.arrays(boxes).tolist() == boxes.tolist()
    assert [each.tolist() for each in adapter.pieces(boxes, np.array([0, 2, 2]))] == [
        boxes.tolist(),
        [],
    ]
    assert len(pinned) == 4
    adapter.numbers(np.array([1, 2]))  # stays on the host
    assert len(pinned) == 4


def test_a_consumer_gets_a_few_batches_ahead_of_its_gpu_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = SimpleNamespace(queued=0, done=0)

    class Event:
        def __init__(self, *, blocking: bool) -> None:
            assert blocking

        def record(self, stream: str) -> None:
            assert stream == "the current stream of cuda:1"
            self.after = gpu.queued

        def synchronize(self) -> None:
            gpu.done = max(gpu.done, self.after)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device: f"the current stream of {device}"
    )
    adapter = TorchAdapter(torch.device("cuda:1"))
    ahead = []
    for _ in range(20):
        adapter.pace()
        gpu.queued += 1  # what the consumer makes of the batch
        ahead.append(gpu.queued - gpu.done)
    assert ahead == [min(step, _MAX_AHEAD + 1) for step in range(1, 21)]


def test_a_wait_for_the_consumer_is_not_in_the_stats(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(pictures, framework="torch") as loader:
        counted: list[gpufeed.Stats] = []
        monkeypatch.setattr(TorchAdapter, "pace", lambda _: counted.append(loader.stats))
        for number, _ in enumerate(loader, 1):
            then, now = counted[-1], loader.stats
            assert (then.batches, then.seconds, then.waited) == (number, now.seconds, now.waited)


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_torch_without_cuda_is_an_error_of_the_loader(
    pictures: Manifest, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "gpu_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = (
        rf"device is cuda:0, but PyTorch {torch.__version__.replace('+', '.')} cannot use it; "
        r'install a CUDA build .*pytorch.org/get-started.*, or pass device="cpu"'
    )
    with pytest.raises(DeviceError, match=message):
        make(pictures, framework="torch", device=device)


@pytest.fixture
def cuda_plugin(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """The plugins of JAX that seem to be installed; a test may remove CUDA's."""
    installed = [EntryPoint("xla_cuda12", "jax_plugins.xla_cuda12", "jax_plugins")]
    monkeypatch.setattr(jax_adapter, "entry_points", lambda **_: installed)
    monkeypatch.setattr(devices, "gpu_count", lambda: 4)
    monkeypatch.setattr(budget, "free_gpu_memory", lambda _: 80 << 30)
    return installed


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_jax_without_cuda_is_an_error_of_the_loader(
    pictures: Manifest, device: str, cuda_plugin: list[EntryPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(**_: Any) -> None:
        raise AssertionError("jax.distributed.initialize cannot be called after this")

    monkeypatch.setattr(jax, "local_devices", started)
    before = jax.config.jax_platforms  # type: ignore[attr-defined]
    message = 'has no CUDA backend .*; run pip install "jax.cuda12.".*, or pass device="cpu"'
    try:
        for platforms in (None, "", "cuda,cpu", "gpu"):
            jax.config.update("jax_platforms", platforms)
            make(pictures, framework="jax", device=device)
        jax.config.update("jax_platforms", "cpu")
        with pytest.raises(DeviceError, match=message.replace(".*", ".*'cpu'.*", 1)):
            make(pictures, framework="jax", device=device)
    finally:
        jax.config.update("jax_platforms", before)
    cuda_plugin.clear()
    with pytest.raises(DeviceError, match=message):
        make(pictures, framework="jax", device=device)


@pytest.mark.usefixtures("cuda_plugin")
def test_jax_takes_the_gpu_with_the_drivers_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place in JAX's list is another one where a process sees only its own GPU."""
    shown = [SimpleNamespace(id=7, local_hardware_id=3), SimpleNamespace(id=5, local_hardware_id=1)]
    monkeypatch.setattr(jax, "local_devices", lambda backend: shown if backend == "cuda" else [])
    for index, place in [(3, 0), (1, 1)]:
        adapter: Any = make_adapter("jax", Device(index))
        assert adapter.device is shown[place]
    said = "device is cuda:0, but in this process JAX has only cuda:3, cuda:1; pass one of these"
    with pytest.raises(DeviceError, match=said):
        make_adapter("jax", Device(0)).numbers(np.array([1]))


@pytest.mark.usefixtures("cuda_plugin")
def test_a_backend_that_does_not_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(backend: str) -> None:
        raise RuntimeError(f"Unknown backend {backend}")

    monkeypatch.setattr(jax, "local_devices", fail)
    said = "device is cuda:2, but JAX cannot use it: Unknown backend cuda; check JAX_PLATFORMS and"
    with pytest.raises(DeviceError, match=said):
        make_adapter("jax", Device(2)).numbers(np.array([1]))
