"""Feeding a sample as a run does, with a change and without, in turns."""

from __future__ import annotations

import contextlib
import hashlib
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpufeed._util.limits import available_threads
from gpufeed.records import Manifest
from gpufeed.tools.doctor.changes import Candidate
from gpufeed.tools.doctor.probe import make_loader
from gpufeed.tools.doctor.sample import Sample
from gpufeed.tools.doctor.storage import drop_from_memory

__all__ = ["Fed", "feed_in_turns"]

_FEEDING, _FEWEST = 10.0, 3
"""Seconds after which no further round begins, and the rounds that are never cut."""

Step = Callable[[Any], object]


@dataclass(frozen=True)
class Fed:
    """A round of feeding.

    Attributes:
        rate: images/s.
        cpu_ms: CPU time of the process for an image, the consumer's included.
        waited: share of the time that the consumer waited, 0 to 1.
    """

    rate: float
    cpu_ms: float
    waited: float


class _Feed:
    """A loader that is consumed; a context manager."""

    def __init__(self, manifest: Manifest, step: Step, **options: Any) -> None:
        self._loader = make_loader(manifest, **options)
        self._batches = self._loader.forever()
        self._step = step
        self._ahead = options.get("prefetch", 2) + 2
        self._warm = len(self._loader) if options.get("cache") else 0

    def __enter__(self) -> _Feed:
        for _ in range(self._warm):  # so that a cache has all images
            next(self._batches)
        return self

    def __exit__(self, *_: object) -> None:
        self._loader.close()

    def round(self, seconds: float) -> Fed:
        """Feed for some seconds, after the batches that were prepared before."""
        for _ in range(self._ahead):
            next(self._batches)
        images, waited = 0, 0.0
        cpu, start = time.process_time(), time.perf_counter()
        while not images or time.perf_counter() - start < seconds:
            asked = time.perf_counter()
            batch = next(self._batches)
            waited += time.perf_counter() - asked
            self._step(batch)
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
    with contextlib.ExitStack() as stack:
        feeds = [stack.enter_context(_Feed(sample.manifest, step, **sample.options))]
        if change is not None:
            manifest, options = change.prepared or sample.manifest, change.options
            feeds.append(
                stack.enter_context(_Feed(manifest, step, **{**sample.options, **options}))
            )
        found: list[list[Fed]] = [[] for _ in feeds]
        deadline = time.monotonic() + _FEEDING
        for number in range(rounds):
            if number >= _FEWEST and time.monotonic() > deadline:
                break
            for feed, fed in zip(feeds, found, strict=True):
                free.append(_free_cores())
                if sample.storage.dropped and not sample.storage.cached:
                    drop_from_memory(sample.manifest.source, keys)
                fed.append(feed.round(seconds))
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
