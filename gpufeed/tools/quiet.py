"""Waits until this process is idle, so that a measurement does not pay for the last one."""

from __future__ import annotations

import math
import time

__all__ = ["wait_until_quiet"]

_WATCHED, _QUIET = 0.25, 0.1
"""Seconds in which a process that takes less than this share of a core has nothing left to do."""


def wait_until_quiet(seconds: float = math.inf) -> float:
    """Wait until what was begun ahead is done, so that it is on the account of who began it.

    Args:
        seconds: the longest wait, for processes that may have work of their own.

    Returns:
        The CPU seconds that this process had taken when it became quiet, or gave up.
    """
    deadline = time.monotonic() + seconds
    while True:
        before = time.process_time()
        time.sleep(_WATCHED)
        quiet = time.process_time() - before < _QUIET * _WATCHED
        if quiet or time.monotonic() > deadline:
            return before
