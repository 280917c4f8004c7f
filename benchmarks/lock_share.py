"""The share of time in which some thread of this process holds the interpreter's lock."""

from __future__ import annotations

import random
import resource
import threading
import time
from typing import Self

__all__ = ["LockShare"]

_MEAN, _LEAST = 3e-4, 5e-5
"""Seconds between samples on average, and of the shortest sleep in which a core is given up."""


class LockShare:
    """Samples the lock at random times while the `with` block runs.

    A thread sleeps until random times, and needs the lock each time it wakes. Sleeping costs it one
    voluntary context switch; it makes another only if it has to wait for the lock. So the share of
    these times at which it had to is the share of time that others hold the lock; times that pass
    while it waits count as well. The other threads lose some microseconds to each sample.

    Attributes:
        samples: the number of samples so far.
    """

    def __init__(self) -> None:
        self.samples = 0
        self._held = 0
        self._stop = False
        self._thread = threading.Thread(target=self._sample, daemon=True)

    @property
    def share(self) -> float:
        """The share of time in which the lock was held."""
        return self._held / self.samples

    def _sample(self) -> None:
        chance = random.Random(0)  # noqa: S311 - nothing secret
        now = due = time.perf_counter()
        held = False
        while not self._stop:
            due += chance.expovariate(1 / _MEAN)
            if due <= now:
                self._count(held)
                continue
            before = _switches()
            time.sleep(max(due - now, _LEAST))
            held, now = _switches() > before + 1, time.perf_counter()
            self._count(held)

    def _count(self, held: bool) -> None:
        self.samples += 1
        self._held += held

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self._thread.join()


def _switches() -> int:
    """Return the number of times that this thread has given up its core to wait."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
