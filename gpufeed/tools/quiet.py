"""Waits until this process is idle, so that a measurement does not pay for the last one."""

from __future__ import annotations

import time

__all__ = ["wait_until_quiet"]

_WATCHED, _QUIET = 0.25, 0.1
"""Seconds in which a process that takes less than this share of a core has nothing left to do."""


def wait_until_quiet() -> float:
    """Wait until what was begun ahead is done, so that it is on the account of who began it.

    Returns:
        The CPU seconds that this process had taken when it became quiet.
    """
    while True:
        before = time.process_time()
        time.sleep(_WATCHED)
        if time.process_time() - before < _QUIET * _WATCHED:
            return before
