"""Images that are kept decoded: `Loader(cache=...)`, and `python -m benchmarks.cache`."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from nvidia.dali import backend

import gpufeed
from benchmarks.cache import WORK
from benchmarks.gpu.choices import choices
from benchmarks.gpu.command import run_json
from benchmarks.gpu.data import listed
from benchmarks.gpu.job import Facts, Job
from benchmarks.gpu.timing import endless, timed

__all__ = ["cases"]

_GOAL = 1_000_000
"""Images/s of `presets.evaluate` in later epochs on an H100, from the cache on the device."""


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return pixels, the speed of each kind of cache, then the program, which runs on the CPU."""
    options = ("--data", job.photos, "--work", "train", "evaluate", "--rounds")
    rounds = str(job.pick(3, 2, 1))
    in_graph = "cuda" if job.on_gpu else "graph"
    ways = (("threads", None), ("threads", "host"), (in_graph, None), (in_graph, "device"))
    return {
        **{
            f"pixels: {work}, {choice.name}": partial(_pixels, job, work, choice.opener)
            for choice in choices(job.device)
            # Threads resize nothing that is on the device.
            for work in (["evaluate"] if "threads" in choice.opener else ["evaluate", "train"])
        },
        **{
            f"{work}, opener={opener!r}, cache={kind!r}": partial(_fed, job, work, opener, kind)
            for work in ("train", "evaluate")
            for opener, kind in ways
        },
        "program": partial(run_json, "benchmarks.cache", *options, rounds),
    }


def _pixels(job: Job, work: str, opener: Any) -> Facts:
    """Feed three epochs with a cache on the device and without; they must be the same."""
    manifest, digests = listed(job, job.pick(96, 48, 8)), []
    kinds: tuple[Any, ...] = (None, "device")
    for kind in kinds:
        with gpufeed.Loader(
            manifest,
            transforms=WORK[work](),
            batch_size=8,
            device=job.device,
            shard=gpufeed.ShardOptions(),
            opener=opener,
            cache=kind,
        ) as loader:
            total = hashlib.sha256()
            for _ in range(3):
                for batch in loader:
                    total.update(batch["image"].tobytes())
            digests.append(total.hexdigest())
    return {"ok": digests[0] == digests[1]}


def _fed(job: Job, work: str, opener: str, kind: str | None) -> Facts:
    manifest, size = listed(job, job.pick(2048, 64, 16)), job.pick(512, 32, 8)
    options = {"transforms": WORK[work](), "opener": opener, "cache": kind, "batch_size": size}
    free = _free(job)
    batches = endless(job, manifest, **options)
    began = time.perf_counter()
    for _ in range(len(manifest) // size):
        next(batches)
    facts = {"first epoch, s": time.perf_counter() - began, **timed(job, batches, size)}
    if job.on_gpu:
        facts["device memory taken, MB"] = (free - _free(job)) / 1e6
        if work == "evaluate" and kind == "device":
            facts["goal"] = f"{_GOAL:,} images/s"
            facts |= {"found": facts["images/s"], "ok": facts["images/s"] >= _GOAL}
    return facts


def _free(job: Job) -> int:
    if not job.on_gpu:
        return 0
    import torch

    backend.ReleaseUnusedMemory()  # which DALI keeps for itself otherwise
    free: int = torch.cuda.mem_get_info()[0]
    return free
