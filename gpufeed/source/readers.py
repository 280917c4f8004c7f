"""Who reads the files of a batch: one thread in turn, or several side by side."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

__all__ = ["SLOW", "THREADS", "GivenUp", "PatientReaders", "Readers"]

T = TypeVar("T")
R = TypeVar("R")

THREADS = 8
"""Threads that read files: they wait for storage, so their number does not follow the cores."""

SLOW = 0.5e-3
"""Seconds that two files in a row may take each before the others are read side by side.

Files that the system has in memory take a tenth of that, and four times as long when threads that
share an interpreter take turns at them; a disk or network that is waited for gains from many. One
slow file alone is mostly a thread that had to wait for its core.
"""


class GivenUp(BaseException):
    """Nobody wants any more what was being read. No `Exception`, since no file has failed."""


class Readers(abc.ABC):
    """Who reads files.

    Their threads are kept from batch to batch and from epoch to epoch: a new thread may be given
    a heap of its own by malloc, and these would grow one after the other.
    """

    @abc.abstractmethod
    def read(self, items: Sequence[T], attempt: Callable[[T], R]) -> list[R | TimeoutError]:
        """Return what `attempt` gives for each item, in order; or that it took too long.

        Args:
            items: what is to be read; hashable.
            attempt: reads one, on any thread; what cannot be read it returns, and does not raise.

        Raises:
            GivenUp: `give_up` was called meanwhile.
        """

    @abc.abstractmethod
    def give_up(self) -> None:
        """Have those who wait for files wait no longer, where that can be done."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the threads."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


class PatientReaders(Readers):
    """Reads on the calling thread, on others too where files are slow, and waits for all."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, "gpufeed-read")

    def read(self, items: Sequence[T], attempt: Callable[[T], R]) -> list[R | TimeoutError]:
        """Read: see `Readers`."""
        found: list[R | TimeoutError] = []
        slow_in_a_row = 0
        while len(found) < len(items) and slow_in_a_row < 2:
            began = time.perf_counter()
            found.append(attempt(items[len(found)]))
            slow = time.perf_counter() - began > SLOW
            slow_in_a_row = slow_in_a_row + 1 if slow else 0
        found += self._pool.map(attempt, items[len(found) :])
        return found

    def give_up(self) -> None:
        """Do nothing: a thread that reads can not be ended."""

    def close(self) -> None:
        """End the threads, when they have read what they are reading."""
        self._pool.shutdown(cancel_futures=True)
