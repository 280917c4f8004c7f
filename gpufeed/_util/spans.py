"""Spans: when each stage of each batch began and ended, for figures, timelines and profilers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

import nvtx

__all__ = ["STAGES", "Annotate", "Span", "Spans", "at_work"]

STAGES = ("plan", "read", "open", "run", "hand_over")
"""What a batch goes through, in order."""

_KEPT = 8 * 1000
"""Spans that are remembered: those of a thousand batches, in two megabytes."""

Annotate = Callable[[str, int], AbstractContextManager[object]]
"""Makes a range in the trace of a framework's profiler, of a name and the number of a batch."""


class Span(NamedTuple):
    """A stage of a batch, or its consumer's wait for it; times are of `time.perf_counter_ns`."""

    stage: str
    step: int
    begin: int
    end: int


class Spans:
    """The latest spans of a loader, and the time that each stage has taken in all.

    Any thread may add to them.

    Args:
        annotate: shows a block to the profiler of a framework; None for none.

    Attributes:
        sums: nanoseconds of all spans by stage; "wait" is the consumer's.
        under_way: when the blocks that have not ended began, by stage and step.
    """

    def __init__(self, annotate: Annotate | None = None) -> None:
        self.sums = dict.fromkeys((*STAGES, "wait"), 0)
        self.under_way: dict[tuple[str, int], int] = {}
        self._annotate = annotate
        # Does nothing, in a tenth of a microsecond, unless the process runs under such a tool.
        self._nvtx = nvtx.get_domain("gpufeed")
        self._latest: deque[Span] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def __call__(self, stage: str, step: int) -> Iterator[None]:
        """Note the block as a span, and show it to profilers."""
        begin = self.under_way[stage, step] = time.perf_counter_ns()
        try:
            with self.range(stage, step):
                yield
        finally:
            self.under_way.pop((stage, step), None)  # another thread may make the same batch
            self.add(stage, step, begin)

    @contextlib.contextmanager
    def range(self, stage: str, step: int) -> Iterator[None]:
        """Show the block to profilers, without noting it."""
        self._nvtx.push_range(self._nvtx.get_event_attributes(message=stage, payload=step))
        try:
            if self._annotate is None:
                yield
            else:
                with self._annotate(f"gpufeed.{stage}", step):
                    yield
        finally:
            self._nvtx.pop_range()

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


def at_work(seconds: Mapping[str, float], readers: int) -> dict[str, float]:
    """Return the seconds in which each stage was at work, from those summed over its batches.

    Args:
        seconds: the sums by stage.
        readers: batches that are planned and read at the same time.
    """
    return {
        stage: total / (readers if stage in ("plan", "read") else 1)
        for stage, total in seconds.items()
    }
