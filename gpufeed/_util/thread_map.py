"""Spreads many small pieces of work over threads."""

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
    """Return what `work` gives for each item, in order.

    Args:
        work: called on several threads.
        items: the items.
        threads: how many work at a time.
        done: called now and then with how many more are done.
        name: what the threads' names begin with.
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
