"""Functions that are called when the interpreter exits, before it waits for threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

__all__ = ["before_threads_end"]


def before_threads_end(function: Callable[[], object]) -> None:
    """Call a function at exit; of several, the last one given comes first.

    `atexit` would be too late: concurrent.futures first joins its threads, which may wait for what
    the function ends. On a Python without the private function that this uses, the exit waits.
    """
    with contextlib.suppress(AttributeError, RuntimeError):
        threading._register_atexit(function)  # type: ignore[attr-defined]
