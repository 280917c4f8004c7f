"""A map over a thread pool, for many small items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["thread_map"]

T = TypeVar("T")
R = TypeVar("R")


def thread_map(
    work: Callable[[T], R],
    items: Sequence[T],
    *,
    threads: int,
    done: Callable[[int], None],
    name: str,
    chunk: int = 32,
) -> list[R]:
    """Return `work(item)` for each item, in order.

    Args:
        work: function to apply; called on several threads.
        items: its arguments.
        threads: number of threads.
        done: called with the number of items finished since its last call.
        name: prefix of the threads' names.
        chunk: items that a thread takes at a time.
    """

    def work_on(start: int) -> list[R]:
        results = [work(item) for item in items[start : start + chunk]]
        done(len(results))
        return results

    pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
    try:
        parts = list(pool.map(work_on, range(0, len(items), chunk)))
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupt must not wait for the rest
    return [result for part in parts for result in part]
