"""Chooses what reads a source: its own requests, threads, or threads that may be left behind."""

from __future__ import annotations

from gpufeed.source.base import Source, starter
from gpufeed.source.concurrent import Concurrent
from gpufeed.source.selection import reusing_memory
from gpufeed.source.threads import Threaded
from gpufeed.source.timeout import Timeout
from gpufeed.source.wrapper import Wrapper

__all__ = ["open_reader"]


def open_reader(source: Source, seconds: float | None = None) -> Wrapper:
    """Return a reader of a source's images, which the caller closes.

    Args:
        source: the images.
        seconds: how long each may take; None for no limit.
    """
    source = reusing_memory(source)
    if (start := starter(source)) is not None:
        return Concurrent(source, start, seconds)
    return Threaded(source) if seconds is None else Timeout(source, seconds)
