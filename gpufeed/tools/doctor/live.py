"""Feeding a sample as a run does, with a change and without, in turns."""

from __future__ import annotations

import contextlib
import hashlib
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpufeed._util.limits import available_threads
from gpufeed.tools.doctor.changes import Candidate
from gpufeed.tools.doctor.probe import make_loader
from gpufeed.tools.doctor.sample import Sample
from gpufeed.tools.doctor.storage import drop_from_memory
from gpufeed.tools.quiet import wait_until_quiet

__all__ = ["Fed", "feed_in_turns"]

_FEEDING, _FEWEST = 10.0, 3
"""Seconds after which no further round begins, and the rounds that are never cut."""

Step = Callable[[Any], object]


@dataclass(frozen=True)
class Fed:
    """A round: images/s, CPU ms of the process for an image, share of the time waited, 0 to 1."""

    rate: float
    cpu_ms: float
    waited: float


def _feed(batches: Iterator[Any], step: Step, ahead: int, seconds: float) -> Fed:
    """Feed for some seconds, after the batches that were prepared before."""
    for _ in range(ahead):
        next(batches)
    images, waited = 0, 0.0
    cpu, start = time.process_time(), time.perf_counter()
    while not images or time.perf_counter() - start < seconds:
        asked = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - asked
        step(batch)
        images += len(batch["record_key"])
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return Fed(images / wall, 1000 * cpu / images, waited / wall)


def feed_in_turns(
    sample: Sample, change: Candidate | None, step: Step, rounds: int, seconds: float
) -> tuple[list[Fed], list[Fed], float]:
    """Feed the sample from where it is, as it is set up and with a change, in turns.

    Returns:
        The rounds without the change, those with it, and the cores that were free meanwhile.
    """
    free, keys = [], np.arange(len(sample.manifest))
    ways = [(sample.manifest, sample.options)]
    if change is not None:
        ways.append((change.prepared or sample.manifest, {**sample.options, **change.options}))
    ahead = 2 * sample.options.get("prefetch", 2) + 2
    with contextlib.ExitStack() as stack:
        feeds = []
        for manifest, options in ways:
            loader = stack.enter_context(make_loader(manifest, **options))
            feeds.append(loader.forever())
            for _ in range(len(loader) if options.get("cache") else 0):
                next(feeds[-1])  # so that the cache has all images
        found: list[list[Fed]] = [[] for _ in feeds]
        deadline = time.monotonic() + _FEEDING
        for number in range(rounds):
            if number >= _FEWEST and time.monotonic() > deadline:
                break
            for feed, fed in zip(feeds, found, strict=True):
                wait_until_quiet(_FEEDING)
                free.append(_free_cores())
                if sample.storage.dropped and not sample.storage.cached:
                    drop_from_memory(sample.manifest.source, keys)
                fed.append(_feed(feed, step, ahead, seconds))
    return found[0], found[-1], statistics.median(free)


def _free_cores(seconds: float = 0.2) -> float:
    """Return the cores that this process gets while others work."""
    block, threads = bytes(1 << 20), 2 * available_threads()

    def work(_: int) -> None:
        while time.perf_counter() < until:
            hashlib.sha256(block).digest()  # without the interpreter's lock

    cpu, start = time.process_time(), time.perf_counter()
    until = start + seconds
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return (time.process_time() - cpu) / (time.perf_counter() - start)
