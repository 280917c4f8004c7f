"""Images per second of batches that come without end."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import gpufeed
from benchmarks.compare.gpu import GpuWatch
from benchmarks.gpu.job import Facts, Job

__all__ = ["STRETCHES", "endless", "stretch", "timed"]

STRETCHES = 3
"""Times that a rate is measured, of which the median is taken."""


def endless(job: Job, manifest: gpufeed.Manifest, **options: Any) -> Iterator[Any]:
    """Yield a loader's batches, epoch after epoch."""
    with gpufeed.Loader(
        manifest,
        device=job.device,
        framework="torch" if job.on_gpu else "numpy",
        shard=gpufeed.ShardOptions(),
        **{"batch_size": job.batch, "num_threads": job.cores, **options},
    ) as loader:
        while True:
            yield from loader


def stretch(job: Job, batches: Iterator[Any], images: int) -> tuple[float, int]:
    """Take batches for the time of one measurement; return images/s and their number."""
    count, began = 0, time.perf_counter()
    while count < 2 or time.perf_counter() - began < job.seconds:
        next(batches)
        count += 1
    if job.on_gpu:
        import torch

        torch.cuda.synchronize()
    return count * images / (time.perf_counter() - began), count * images


def timed(job: Job, batches: Iterator[Any], images: int) -> Facts:
    """Return images/s over some stretches, after one that warms up."""
    stretch(job, batches, images)
    watch, rates, taken = GpuWatch(job.device), [], 0
    with watch.looking():
        cpu, began = time.process_time(), time.perf_counter()
        for _ in range(STRETCHES):
            rate, more = stretch(job, batches, images)
            rates.append(rate)
            taken += more
        cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    return {
        "images/s": statistics.median(rates),
        "low": min(rates),
        "high": max(rates),
        "cores used": cpu / wall,
        "CPU ms an image": 1000 * cpu / taken,
        "GPU busy": watch.figures["gpu_share"],
        "engines busy": watch.figures["jpeg_share"],
        "GPU MiB": watch.figures["gpu_mib"],
    }
