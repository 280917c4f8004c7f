"""Training steps of a ResNet and a vision transformer: how much of their time they wait."""

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

_GOAL = 0.01


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return a case for each model."""
    models = ("resnet50", "vit_s") if job.on_gpu else ("small", "vit_small")
    return {model: partial(_train, job, model) for model in models}


def _train(job: Job, model: str) -> Facts:
    """Train on synthetic batches and on gpufeed's, in turns."""
    for module in ("torch", "psutil"):
        if importlib.util.find_spec(module) is None:
            raise Absent(f"{module} is not installed")
    from benchmarks.step.feeds import choose
    from benchmarks.step.turns import train

    count = job.pick(8192, 256, 32)
    names = tuple(itertools.islice(itertools.cycle(list_images(Path(job.photos))), count))
    batch_size, size = job.pick(256, 16, 4), job.pick(224, 64, 32)
    work = Work("originals", job.photos, names, batch_size, size, job.device, job.cores)
    fed, absent = train(
        work,
        choose(["gpufeed"], job.cores),
        model=model,
        rounds=job.pick(2, 2, 1),
        steps=job.pick(40, 8, 2),
        say=print,
        advance=lambda _: None,
    )
    if absent:
        return {"error": absent[0].why}
    ceiling, ours = fed[0], fed[1]
    waiting = statistics.median([turn.waiting for turn in ours.rounds])
    over = [a.rate / b.rate for a, b in zip(ours.rounds, ceiling.rounds, strict=True)]
    return {
        "images/s": statistics.median([turn.rate for turn in ours.rounds]),
        "on ready batches": statistics.median([turn.rate for turn in ceiling.rounds]),
        "of that": statistics.median(over),
        "GPU busy": ours.typical.busy,
        "CPU ms an image": ours.typical.cpu_ms,
        "goal": f"waits less than {_GOAL:.0%} of the time, on a GPU",
        "found": f"{waiting:.2%}",
        **({"ok": waiting < _GOAL} if job.on_gpu else {}),
    }
