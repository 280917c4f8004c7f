"""`gpufeed bench`: feeding beside plain decode, and the waiting of a paced consumer."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.command import run
from benchmarks.gpu.job import Facts, Job

__all__ = ["cases"]


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return a case for each preset."""
    return {preset: partial(_bench, job, preset) for preset in ("train", "evaluate")}


def _bench(job: Job, preset: str) -> Facts:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "bench.json")
        facts = run(
            "gpufeed",
            *("bench", job.photos, "--preset", preset, "--device", job.device),
            *("--framework", "torch" if job.on_gpu else "numpy", "--json", str(out)),
            *("--batch-size", str(job.pick(64, 16, 8)), "--rounds", str(job.pick(3, 3, 1))),
            *("--seconds", str(job.seconds), "--step-ms", str(job.pick(20, 50, 5))),
        )
        if "error" in facts:
            return facts
        found: dict[str, Any] = json.loads(out.read_text())["found"]
    return {
        "images/s": found["fed"]["images_per_second"]["median"],
        "CPU ms an image": found["fed"]["cpu_ms"]["median"],
        "of plain decode": found["over_decoded"]["median"],
        "first batch, s": found["first_batch_s"],
        "waiting": found["waiting"]["share"]["median"],
        "step, ms": found["waiting"]["step_ms"],
    }
