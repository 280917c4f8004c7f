"""`python -m benchmarks.feeding`: what stands between reading and the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.gpu.command import run
from benchmarks.gpu.job import Facts, Job

__all__ = ["cases"]


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return the program as one case."""
    arguments = ("--photos", job.photos, "--device", job.device)
    return {"feeding": partial(run, "benchmarks.feeding", *arguments)}
