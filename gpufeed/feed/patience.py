"""Say which source a batch waits for, and until when, if the wait is long."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpufeed._util.sanitize import short
from gpufeed.source.base import Source
from gpufeed.source.selection import Joined
from gpufeed.tiers.source import TieredSource

if TYPE_CHECKING:
    from gpufeed._util.spans import Spans

__all__ = ["Patience"]

SECONDS = 5.0
"""Seconds of waiting for a batch after which its source is named, and again at each doubling."""

_log = logging.getLogger("gpufeed")


class Patience:
    """One wait for a batch, which logs a warning while the source takes long.

    Args:
        step: the batch.
        source: has its images.
        read_timeout: seconds that each image may take; None for no limit.
        spans: knows whether the batch is being read.
    """

    def __init__(self, step: int, source: Source, read_timeout: float | None, spans: Spans) -> None:
        self._step = step
        self._source = source
        self._read_timeout = read_timeout
        self._spans = spans
        self._begun = time.monotonic()
        self._next = SECONDS

    def check(self) -> None:
        """Log a warning if it is time for one; call it often."""
        waited = time.monotonic() - self._begun
        reading = self._spans.under_way.get(("read", self._step))
        if waited < self._next or reading is None:
            return
        while self._next <= waited:
            self._next *= 2
        _log.warning(
            "gpufeed: waiting for batch %d, %.0f s so far: %s has not delivered it yet; %s",
            self._step,
            waited,
            short(self._source),
            self._until((time.perf_counter_ns() - reading) / 1e9),
        )

    def _until(self, read_for: float) -> str:
        """Return until when a read that has taken so many seconds goes on."""
        bounds = {"retry_seconds": max(_retry_seconds(self._source), default=None)}
        bounds["read_timeout"] = self._read_timeout
        known = [(seconds, name) for name, seconds in bounds.items() if seconds is not None]
        if not known:
            return "it may wait indefinitely, since read_timeout is None"
        seconds, name = min(known)
        end = time.strftime("%H:%M:%S", time.localtime(time.time() + seconds - read_for))
        return f"each image is tried for {name}={seconds:g} s, until about {end}"


def _retry_seconds(source: Source) -> Iterator[float]:
    """Yield how long each remote storage of a source repeats a request that fails."""
    if isinstance(source, TieredSource):
        source = source.source
    for each in source.sources if isinstance(source, Joined) else [source]:
        storage = getattr(each, "storage", None)
        for place in (storage, getattr(storage, "storage", None)):
            if isinstance(seconds := getattr(place, "retry_seconds", None), float | int):
                yield seconds
