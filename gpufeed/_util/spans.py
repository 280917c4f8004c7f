"""Spans: when each stage of each batch began and ended, for figures, timelines and profilers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

__all__ = ["STAGES", "Annotate", "Span", "Spans"]

STAGES = ("plan", "read", "open", "run", "hand_over")
"""What a batch goes through, in order."""

_KEPT = 8 * 1000
"""Spans that are remembered: those of about a thousand batches, 100 bytes each."""

Annotate = Callable[[str, int], AbstractContextManager[object]]
"""Makes a range of a profiler, given its name and the number of the batch."""


class Span(NamedTuple):
    """A stage of a batch, or a wait of its consumer; times are of `time.perf_counter_ns`."""

    stage: str
    step: int
    begin: int
    end: int


class Spans:
    """The latest spans of a loader, and the time that each stage has taken in all.

    Any thread may add to them.

    Args:
        annotate: shows spans to a profiler too; None for no profiler.

    Attributes:
        sums: nanoseconds of each stage, the consumer's waits among them, of all spans ever.
    """

    def __init__(self, annotate: Annotate | None = None) -> None:
        self.sums = dict.fromkeys((*STAGES, "wait"), 0)
        self._annotate = annotate
        self._latest: deque[Span] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def __call__(self, stage: str, step: int) -> Iterator[None]:
        """Note the block as a span, and show it to a profiler."""
        begin = time.perf_counter_ns()
        try:
            with self.range(stage, step):
                yield
        finally:
            self.add(stage, step, begin)

    def range(self, stage: str, step: int) -> AbstractContextManager[object]:
        """Show the block to a profiler without noting it."""
        if self._annotate is None:
            return contextlib.nullcontext()
        return self._annotate(f"gpufeed.{stage}", step)

    def add(self, stage: str, step: int, begin: int) -> int:
        """Note a span that ends now; return its end."""
        end = time.perf_counter_ns()
        with self._lock:
            self.sums[stage] += end - begin
            self._latest.append(Span(stage, step, begin, end))
        return end

    def latest(self) -> list[Span]:
        """Return the latest spans, in the order of their ends."""
        with self._lock:
            return [*self._latest]
