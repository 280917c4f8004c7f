"""Other loaders at the same work, in turns: `benchmarks.compare` on this run's images."""

from __future__ import annotations

import importlib.util
import itertools
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.compare.data import list_images
from benchmarks.compare.work import Work
from benchmarks.gpu.job import Absent, Facts, Job

__all__ = ["cases"]

_ON_GPU = ("gpufeed", "DALI", "GPU", "nvJPEG", "SPDL", "CUDA", "copy to")
_ON_CPU = ("gpufeed", "DALI tuned", "limit: DALI")
"""Parts of the names of those that take part; on the CPU there is a comparison of its own."""


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return training, the work of which most is known of others."""
    return {"train": partial(_compare, job, "train")}


def _compare(job: Job, preset: str) -> Facts:
    if importlib.util.find_spec("psutil") is None:
        raise Absent("psutil is not installed")
    from benchmarks.compare.run import compare

    count = job.pick(1024, 48, 16)
    names = tuple(itertools.islice(itertools.cycle(list_images(Path(job.photos))), count))
    work = Work(
        "originals",
        job.photos,
        names,
        job.pick(256, 16, 8),
        224,
        job.device,
        job.cores,
        preset,
    )
    result = compare(
        work,
        rounds=job.pick(3, 2, 1),
        batches=job.pick(12, 4, 2),
        only=_ON_GPU if job.on_gpu else _ON_CPU,
        say=print,
    )
    ours = next(entry for entry in result.entries if entry.name == "gpufeed").warm
    rows: dict[str, Facts] = {}
    for entry in result.entries:
        pairs = zip(entry.warm, ours, strict=True)
        turn = sorted(entry.warm, key=lambda each: each.images_per_second)[len(entry.warm) // 2]
        rows[entry.name] = {
            "images/s": turn.images_per_second,
            "of gpufeed's": statistics.median(
                [a.images_per_second / b.images_per_second for a, b in pairs]
            ),
            "CPU ms an image": turn.user_ms + turn.system_ms,
            "GPU busy": turn.gpu_share,
            "engines busy": turn.jpeg_share,
            "does": entry.does,
            "remarks": "; ".join(entry.remarks),
        }
    rows |= {each.name: {"absent": each.why} for each in result.absent}
    return {"rows": rows, "images": count}
