"""Images that are kept decoded: `Loader(cache=...)`, and `python -m benchmarks.cache`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from benchmarks.gpu.command import run_json
from benchmarks.gpu.data import listed
from benchmarks.gpu.job import Facts, Job
from benchmarks.gpu.timing import endless, timed

__all__ = ["cases"]


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return each kind of cache, then the program, which runs on the CPU."""
    options = ("--data", job.photos, "--work", "train", "evaluate", "--rounds")
    rounds = str(job.pick(3, 2, 1))
    return {
        **{f"cache={kind!r}": partial(_fed, job, kind) for kind in (None, "host")},
        "program": partial(run_json, "benchmarks.cache", *options, rounds),
    }


def _fed(job: Job, kind: str | None) -> Facts:
    manifest = listed(job, job.pick(2048, 64, 16))
    batches = endless(job, manifest, opener="threads", cache=kind)
    began = time.perf_counter()
    for _ in range(len(manifest) // job.batch):
        next(batches)
    return {"first epoch, s": time.perf_counter() - began, **timed(job, batches, job.batch)}
