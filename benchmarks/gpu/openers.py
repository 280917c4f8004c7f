"""Images per second: decoders alone, every opener, then threads, batches and prefetch on the best.

The last case is the `Loader` on the best of all, in turns with the fastest decoder alone.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.compare.data import list_images
from benchmarks.compare.field import find_peer
from benchmarks.compare.peers import limits, limits_gpu
from benchmarks.compare.work import Work
from benchmarks.gpu.choices import choices
from benchmarks.gpu.data import listed
from benchmarks.gpu.job import Absent, Facts, Job
from benchmarks.gpu.timing import STRETCHES, endless, stretch, timed

__all__ = ["best_options", "cases"]

_GOAL, _STRETCH = 10_000, 19_000
"""Images/s of NABirds' originals, on an H100 with 16 cores."""
_SHARE = 0.95
"""Of the rate of the fastest decoder alone."""
_LOADS = (0.0, 0.1, 0.25, 0.5, 0.65, 1.0)
_ALONE, _OPENER = "alone: ", "opener: "


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return decoders alone, openers, sweeps, and the best."""
    listed_cases: dict[str, Callable[[], Facts]] = {
        _ALONE + name: partial(_measure_alone, job, make) for name, make in _alone(job).items()
    }
    for choice in choices(job.device):
        listed_cases[_OPENER + choice.name] = partial(_measure, job, opener=choice.opener)
    cores = job.cores
    for name, values in (
        ("num_threads", job.pick((cores // 2, cores, 2 * cores), (1, cores), (1,))),
        ("batch_size", job.pick((64, 128, 512), (16, 64), (4,))),
        ("prefetch", job.pick((1, 3, 4), (1, 3), (1,))),
    ):
        for value in values:
            listed_cases[f"{name} {value}"] = partial(_measure_on_best, job, {name: value})
    listed_cases["the best"] = partial(_measure_best, job)
    return listed_cases


# ------------------------------------------------------------------------------- decoders


def _alone(job: Job) -> dict[str, Callable[[], Iterator[Any]]]:
    """Return decoders without a loader: iterators over batches, by name."""
    found: dict[str, Callable[[], Iterator[Any]]] = {}
    for peer in (*limits.PEERS, *limits_gpu.PEERS):
        if "decode" in peer.name:
            found[peer.name.removeprefix("limit: ")] = partial(_peer, job, peer.name)
    for load in _LOADS if job.on_gpu else (0.0,):
        name = "DALI, whole images" + (f", hw_decoder_load {load:g}" if job.on_gpu else "")
        found[name] = partial(_dali, job, load)
    return found


def _work(job: Job) -> Work:
    names = tuple(itertools.islice(itertools.cycle(list_images(Path(job.photos))), job.records))
    return Work("originals", job.photos, names, job.batch, 224, job.device, job.cores)


def _peer(job: Job, name: str) -> Iterator[Any]:
    peer = find_peer(name)
    if why := peer.lacks(job.device):
        raise Absent(why if peer.missing() or job.on_gpu else "needs a GPU")
    return peer.open(_work(job))


def _dali(job: Job, load: float) -> Iterator[Any]:
    from nvidia.dali import Pipeline

    from benchmarks.dali import decoded, read

    pipeline = Pipeline(job.batch, job.cores, 0 if job.on_gpu else None, exec_dynamic=True)
    with pipeline:
        encoded, _ = read(_work(job).files)
        options: dict[str, Any] = {"hw_decoder_load": load} if job.on_gpu else {}
        pipeline.set_outputs(decoded(encoded, job.on_gpu, **options))
    pipeline.build()
    while True:
        yield pipeline.run()


def _measure_alone(job: Job, make: Callable[[], Iterator[Any]]) -> Facts:
    return timed(job, make(), job.batch)


# -------------------------------------------------------------------------------- loaders


def _feed(job: Job, **options: Any) -> Iterator[Any]:
    """Return batches without end."""
    return endless(job, listed(job, job.records), **options)


def _measure(job: Job, **options: Any) -> Facts:
    return timed(job, _feed(job, **options), options.get("batch_size", job.batch))


def _best(job: Job, prefix: str) -> str:
    """Return the name of the fastest case so far whose name begins like this."""
    rates: dict[str, float] = {name: facts.get("images/s", 0) for name, facts in job.known.items()}
    named = {name: rate for name, rate in rates.items() if name.startswith(prefix) and rate}
    if not named:
        raise Absent(f"no case {prefix!r} has a rate")
    return max(named, key=lambda name: named[name])


def _opener(job: Job) -> Any:
    best = _best(job, _OPENER).removeprefix(_OPENER)
    return next(choice.opener for choice in choices(job.device) if choice.name == best)


def _measure_on_best(job: Job, options: dict[str, int]) -> Facts:
    return _measure(job, opener=_opener(job), **options)


def best_options(job: Job) -> dict[str, Any]:
    """Return the best opener, and of each other option the best value if it is better."""
    least = job.known[_best(job, _OPENER)]["images/s"]
    options: dict[str, Any] = {"opener": _opener(job)}
    for name in ("num_threads", "batch_size", "prefetch"):
        try:
            best = _best(job, f"{name} ")
        except Absent:
            continue
        if job.known[best]["images/s"] > least:
            options[name] = int(best.removeprefix(f"{name} "))
    return options


def _measure_best(job: Job) -> Facts:
    options = best_options(job)
    alone = _best(job, _ALONE)
    batch_size = options.get("batch_size", job.batch)
    feeds = {
        "fed": (_feed(job, **options), batch_size),
        "alone": (_alone(job)[alone.removeprefix(_ALONE)](), job.batch),
    }
    rates: dict[str, list[float]] = {name: [] for name in feeds}
    for number in range(STRETCHES + 1):
        for name, (batches, images) in feeds.items():
            rate = stretch(job, batches, images)[0]
            if number:
                rates[name].append(rate)
    fed = statistics.median(rates["fed"])
    share = statistics.median([a / b for a, b in zip(rates["fed"], rates["alone"], strict=True)])
    return {
        "images/s": fed,
        "options": ", ".join(f"{name}={value!r}" for name, value in options.items()),
        "rows": {
            "images/s": {
                "goal": f"{_GOAL:,} (stretch {_STRETCH:,}) on an H100 with 16 cores",
                "found": fed,
                **({"ok": fed >= _GOAL} if job.on_gpu else {}),
            },
            "of the fastest decoder alone": {
                "goal": f"{_SHARE} of {alone.removeprefix(_ALONE)}",
                "found": share,
                **({"ok": share >= _SHARE} if job.on_gpu else {}),
            },
        },
    }
