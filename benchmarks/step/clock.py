"""Timing the work of a device, not the requests for it."""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch

__all__ = ["Clock", "clock_of"]


class Clock(Protocol):
    """Marks moments; `Any` is a mark of its own kind."""

    def mark(self) -> Any:
        """The moment at which all that was asked for before is done."""

    def wait(self, mark: Any) -> None:
        """Return when that moment has come."""

    def seconds(self, begin: Any, end: Any) -> float:
        """Between two moments that have come."""


def clock_of(device: str) -> Clock:
    """Return the clock of "cpu" or "cuda"."""
    return _Gpu() if device == "cuda" else _Host()


class _Host:
    """On the CPU torch is done with an operation when its call returns."""

    def mark(self) -> float:
        return time.perf_counter()

    def wait(self, mark: float) -> None:
        pass

    def seconds(self, begin: float, end: float) -> float:
        return end - begin


class _Gpu:
    """Events in the stream that trains: the GPU writes down the time when it comes to them.

    Not yet run on a GPU.
    """

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def wait(self, mark: torch.cuda.Event) -> None:
        mark.synchronize()

    def seconds(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        return float(begin.elapsed_time(end)) / 1e3
