"""The law of records: an image's pixels are the same in every batch, and while the GPU is busy.

It is checked at every share of the GPU's JPEG engines, which were seen to ignore the order of CUDA
streams. A matrix product runs beside it, on a stream of this process or in another process.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import gpufeed
from benchmarks.gpu.choices import Choice, choices, with_engines
from benchmarks.gpu.data import encoded_as, in_memory, shrunk
from benchmarks.gpu.job import Facts, Job

__all__ = ["cases"]

_SHARES = (0.0, 0.1, 0.25, 0.5, 1.0)
_KINDS = ("JPEG 4:2:0", "JPEG 4:4:4", "JPEG progressive", "PNG")
_BATCHES = (8, 5, 1)
"""Sizes of batches besides the usual one."""

# {side} of a square matrix; numbers stay finite.
_PRODUCTS = """
import torch
a = torch.full(({side}, {side}), 1 / {side}, device="{device}")
b = torch.empty_like(a)
print(flush=True)
while True:
    for _ in range(10):
        torch.mm(a, a, out=b)
    if a.is_cuda:
        torch.cuda.synchronize()
"""


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return a case for each share, or on the CPU for each opener, idle and busy."""
    tried = choices(job.device)
    if job.on_gpu:
        tried = [*map(with_engines, _SHARES), *(each for each in tried if "_" in each.name)]
    loads: dict[str, Callable[[Job], Any]] = {
        "idle": lambda _: nullcontext(),
        "busy stream": _busy_stream,
        "busy process": _busy_process,
    }
    return {
        f"{choice.name}: {name}": partial(_law, job, choice, load)
        for choice in tried
        for name, load in loads.items()
    }


def _law(job: Job, choice: Choice, load: Callable[[Job], Any]) -> Facts:
    few = job.pick(32, 8, 4)
    files, sizes = [], []
    for kind in _KINDS:
        more, seen = encoded_as(shrunk(job, few), kind)
        files += more
        sizes += seen
    manifest = in_memory(files, sizes)
    wanted = dict(_digests(job, choice, manifest, len(manifest)))
    wrong: Counter[int] = Counter()
    checked, began = 0, time.monotonic()
    with load(job):
        while not checked or time.monotonic() - began < job.pick(2.5, 1, 0):
            for batch_size in (len(manifest), *_BATCHES):
                for key, digest in _digests(job, choice, manifest, batch_size):
                    checked += 1
                    wrong[key] += digest != wanted[key]
    wrong += Counter()  # without those that are never wrong
    kinds = {_KINDS[key // few] for key in wrong}
    return {
        "checked": checked,
        "differ": wrong.total(),
        "records": len(wrong),
        "kinds": ", ".join(sorted(kinds)),
        "goal": "no record differs",
        "found": f"{wrong.total()} of {checked}",
        "ok": not wrong,
    }


def _digests(
    job: Job, choice: Choice, manifest: gpufeed.Manifest, batch_size: int
) -> Iterator[tuple[int, bytes]]:
    """Yield each record's key, and a digest of its pixels, for one epoch."""
    count = len(manifest)
    with gpufeed.Loader(
        manifest,
        # The same numbers for each record, in another order.
        sampler=gpufeed.IndexSampler(count, shuffle=batch_size != count, num_epochs=1),
        transforms=gpufeed.presets.train(224, dtype="uint8", layout="NHWC"),
        batch_size=batch_size,
        last_batch="partial",
        device=job.device,
        opener=choice.opener,
        shard=gpufeed.ShardOptions(),
    ) as loader:
        for batch in loader:
            for key, image in zip(batch["record_key"], batch["image"], strict=True):
                yield int(key), hashlib.blake2b(image.tobytes()).digest()


@contextmanager
def _busy_stream(job: Job) -> Iterator[None]:
    """Keep the device busy from a thread, on a stream that goes before others."""
    import torch

    stop, side = threading.Event(), job.pick(8192, 512, 64)
    stream: Any = torch.cuda.Stream(priority=-1) if job.on_gpu else None  # type: ignore[no-untyped-call]

    def work() -> None:
        with torch.cuda.stream(stream) if job.on_gpu else nullcontext():
            matrix = torch.full((side, side), 1 / side, device=job.device)
            product = torch.empty_like(matrix)
            while not stop.is_set():
                for _ in range(10):
                    torch.mm(matrix, matrix, out=product)
                if stream is not None:
                    stream.synchronize()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def _busy_process(job: Job) -> Iterator[None]:
    """Keep the device busy from another process."""
    code = _PRODUCTS.format(side=job.pick(8192, 512, 64), device=job.device)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    said: Any = process.stdout
    try:
        said.readline()  # it is busy
        yield
    finally:
        process.kill()
        process.wait()
