"""Whether a batch's memory is left alone while kernels that read it still wait in a queue.

Each batch is dropped right after its reader has been queued behind slow work. On the CPU, torch
does not queue, so only the program is tried; JAX does.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

import gpufeed
from benchmarks.gpu.choices import Choice, choices
from benchmarks.gpu.data import listed
from benchmarks.gpu.job import Absent, Facts, Job

__all__ = ["cases"]

_TICKS = 40_000_000
"""Clock ticks of a GPU that a reader waits: about 20 ms."""


class _Torch:
    """Reads batches with torch, on its default stream or another."""

    def __init__(self, job: Job, *, own_stream: bool) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._on_gpu = job.on_gpu
        self._stream = self._torch.cuda.Stream() if job.on_gpu and own_stream else None

    def on_stream(self) -> Any:
        return nullcontext() if self._stream is None else self._torch.cuda.stream(self._stream)

    def read(self, image: Any, *, slowly: bool) -> tuple[Any, Callable[[], bool]]:
        """Queue the sum of each image; return it, and whether it has been computed."""
        if slowly and self._on_gpu:
            self._torch.cuda._sleep(_TICKS)
        total = image.flatten(1).sum(1, dtype=self._torch.int64)
        if not self._on_gpu:
            return total, lambda: True
        event = self._torch.cuda.Event()
        event.record()
        return total, event.query

    def numbers(self, total: Any) -> Any:
        if self._on_gpu:
            self._torch.cuda.synchronize()
        return total.cpu().numpy()


class _Jax:
    """Reads batches with JAX."""

    def __init__(self, job: Job) -> None:
        import jax
        import jax.numpy as jnp

        side, times = (8192, 15) if job.on_gpu else (256, 8)
        self._state = jnp.full((side, side), 1 / side, jnp.bfloat16)
        self._slow = jax.jit(
            lambda a: jax.lax.fori_loop(0, times, lambda _, b: jnp.matmul(b, b), a)
        )
        self._sum = jax.jit(lambda x: x.reshape(len(x), -1).astype(jnp.int32).sum(1))

    def on_stream(self) -> Any:
        return nullcontext()

    def read(self, image: Any, *, slowly: bool) -> tuple[Any, Callable[[], bool]]:
        if slowly:
            self._state = self._slow(self._state)
        total = self._sum(image)
        return total, total.is_ready

    def numbers(self, total: Any) -> Any:
        return np.asarray(total)


_READERS: dict[str, tuple[str, Callable[[Job], Any]]] = {
    "torch, default stream": ("torch", partial(_Torch, own_stream=False)),
    "torch, another stream": ("torch", partial(_Torch, own_stream=True)),
    "JAX": ("jax", _Jax),
}


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return a case for each reader and opener of one decoder."""
    tried = [choice for choice in choices(job.device) if choice.is_pure]
    return {
        f"{name}: {choice.name}": partial(_law, job, choice, framework, make)
        for name, (framework, make) in _READERS.items()
        for choice in tried
    }


def _law(job: Job, choice: Choice, framework: Any, make: Callable[[Job], Any]) -> Facts:
    if importlib.util.find_spec(framework) is None:
        raise Absent(f"{framework} is not installed")
    reader = make(job)
    batch_size, batches = job.pick(64, 8, 4), job.pick(16, 6, 3)
    manifest = listed(job, batch_size * batches)
    with (
        reader.on_stream(),
        gpufeed.Loader(
            manifest,
            batch_size=batch_size,
            transforms=gpufeed.presets.train(224, dtype="uint8"),
            device=job.device,
            framework=framework,
            opener=choice.opener,
            prefetch=1,
            shard=gpufeed.ShardOptions(),
        ) as loader,
    ):
        queued = []
        for _ in range(2):
            for batch in loader:
                queued.append(reader.read(batch["image"], slowly=True))
                del batch
        waiting = sum(not done() for _, done in queued)
        found = [reader.numbers(total) for total, _ in queued]
        wanted = []
        for step in range(len(found)):
            total, _ = reader.read(loader.batch(step)["image"], slowly=False)
            wanted.append(reader.numbers(total))
    wrong = sum(not np.array_equal(*pair) for pair in zip(found, wanted, strict=True))
    return {
        "batches": len(found),
        "overwritten": wrong,
        "still queued at the end": waiting,
        "goal": "no batch is overwritten",
        "found": f"{wrong} of {len(found)}",
        "ok": not wrong,
    }
