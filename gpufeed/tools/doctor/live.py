"""Feeding a sample as a run does, with a change and without, in turns."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from gpufeed.records import Manifest
from gpufeed.tools.doctor.probe import make_loader

__all__ = ["Fed", "Feed", "free_cores", "in_turns"]


@dataclass(frozen=True)
class Fed:
    """A round of feeding.

    Attributes:
        rate: images/s.
        cpu_ms: CPU time of the process for an image, the consumer's included.
        waited: share of the time that the consumer waited, 0 to 1.
        step_ms: time of a training step; 0 without one.
    """

    rate: float
    cpu_ms: float
    waited: float
    step_ms: float


class Feed:
    """A loader that is consumed; a context manager.

    Args:
        manifest: the sample.
        step: the training step, called with each batch; None for none.
        options: of the loader.
    """

    def __init__(
        self, manifest: Manifest, step: Callable[[Any], object] | None, **options: Any
    ) -> None:
        self._loader = make_loader(manifest, **options)
        self._batches = self._loader.forever()
        self._step = step
        self._ahead = options.get("prefetch", 2) + 2

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *_: object) -> None:
        self._loader.close()

    def warm(self) -> None:
        """Feed an epoch, so that caches have all images."""
        for _ in range(len(self._loader)):
            next(self._batches)

    def round(self, seconds: float) -> Fed:
        """Feed for some seconds."""
        for _ in range(self._ahead):
            next(self._batches)  # prepared before this round
        images, waited, stepped, batches = 0, 0.0, 0.0, 0
        cpu, start = time.process_time(), time.perf_counter()
        while not batches or time.perf_counter() - start < seconds:
            asked = time.perf_counter()
            batch = next(self._batches)
            took = time.perf_counter()
            waited += took - asked
            if self._step is not None:
                self._step(batch)
                stepped += time.perf_counter() - took
            images += len(batch["record_key"])
            batches += 1
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        return Fed(images / wall, 1000 * cpu / images, waited / wall, 1000 * stepped / batches)


def free_cores(threads: int, seconds: float = 0.2) -> float:
    """Return the cores that so many threads get while other processes work."""
    block = bytes(1 << 20)  # hashed without the interpreter's lock

    def work(_: int) -> None:
        while time.perf_counter() < until:
            hashlib.sha256(block).digest()

    cpu, start = time.process_time(), time.perf_counter()
    until = start + seconds
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return (time.process_time() - cpu) / (time.perf_counter() - start)


def in_turns(
    feeds: Sequence[Feed],
    rounds: int,
    seconds: float,
    before: Callable[[], object],
    limit: tuple[int, float],
) -> list[list[Fed]]:
    """Return the rounds of several feeds, which take turns.

    Args:
        feeds: the feeds.
        rounds: rounds of each.
        seconds: of a round.
        before: called before each.
        limit: rounds after which no other begins, once so many seconds have passed.
    """
    found: list[list[Fed]] = [[] for _ in feeds]
    deadline = time.monotonic() + limit[1]
    for number in range(rounds):
        if number >= limit[0] and time.monotonic() > deadline:
            break
        for feed, fed in zip(feeds, found, strict=True):
            before()
            fed.append(feed.round(seconds))
    return found
