"""`python -m benchmarks.feeding`: what stands between reading and the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.gpu.command import run_json
from benchmarks.gpu.job import Facts, Job

__all__ = ["cases"]


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return the program as one case; it is the same on both devices."""
    rounds, batches = job.pick((3, 48), (1, 8), (1, 2))
    options = ("--kinds", "nabirds_like", "--photos", job.photos)
    counts = ("--rounds", str(rounds), "--batches", str(batches))
    return {"feeding": partial(run_json, "benchmarks.feeding", *options, *counts)}
