"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 240
"""Seconds; far more than anything takes, however busy the machine is."""


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds; it is an error if that never happens."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.002)
