"""`python -m benchmarks.cache`: images that are kept decoded, on the device or the host."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.gpu.command import run_json
from benchmarks.gpu.job import Facts, Job

__all__ = ["cases"]


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return the program as one case."""
    options = ("--photos", job.photos, "--device", job.device)
    return {"cache": partial(run_json, "benchmarks.cache", *options)}
