"""Plans and reads the next batches on threads, and hands them over in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

__all__ = ["Begun", "ReadAhead", "await_result"]

T = TypeVar("T")

Begun = Sequence[tuple[int, Future[T]]]

_TURN = 0.2
"""Seconds after which a wait looks for signals."""


def await_result(future: Future[T]) -> T:
    """Wait for what is coming, so that Ctrl-C is heard."""
    _wait(future)
    return future.result()


def _wait(future: Future[T]) -> None:
    # In turns, since polars' signal handler keeps Ctrl-C from a main thread that waits on.
    while not future.done():
        wait([future], timeout=_TURN)


class ReadAhead(Generic[T]):
    """Calls `prepare(step)` for the steps to come, before they are asked for.

    Args:
        prepare: called on a thread, with an executor on which it may spread its own work; the
            future that it returns may come later.
        steps: the steps, in order.
        begun: what an earlier one handed back when it was closed, of the steps before these.
        ahead: how many are begun before they are asked for, at least 1.
        threads: how many threads the executor has that `prepare` is given.
    """

    def __init__(
        self,
        prepare: Callable[[int, ThreadPoolExecutor], Future[T]],
        steps: Iterator[int],
        *,
        begun: Begun[T] = (),
        ahead: int,
        threads: int,
    ) -> None:
        self._prepare = prepare
        self._steps = steps
        # One thread plans, and mostly reads as well: more would only take turns at the interpreter.
        # It has the others beside it, since a task that waits for its own pool may wait for ever.
        own: set[int] = set()

        def started() -> None:
            own.add(threading.get_ident())

        self._own = own
        self._planner = ThreadPoolExecutor(1, "gpufeed-plan", initializer=started)
        self._readers = ThreadPoolExecutor(threads, "gpufeed-read", initializer=started)
        self._pending: deque[tuple[int, Future[Future[T]]]] = deque()
        for step, coming in begun:
            planned: Future[Future[T]] = Future()
            planned.set_result(coming)
            self._pending.append((step, planned))
        while len(self._pending) < ahead and self._begin_next():
            pass

    def _begin_next(self) -> bool:
        step = next(self._steps, None)
        if step is not None:
            planned = self._planner.submit(self._prepare, step, self._readers)
            self._pending.append((step, planned))
        return step is not None

    @property
    def ready(self) -> bool:
        """Whether the next step's result is there, so that asking for it does not wait."""
        if not self._pending:
            return False
        _, planned = self._pending[0]
        return planned.done() and (planned.exception() is not None or planned.result().done())

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """Wait for the next step's result."""
        if not self._pending:
            raise StopIteration
        _, planned = self._pending[0]
        _wait(planned)
        if planned.exception() is None:
            _wait(planned.result())
        self._pending.popleft()
        self._begin_next()
        return planned.result().result()

    def close(self) -> Begun[T]:
        """End the threads.

        Returns:
            What was begun and can be gone on with, each step with what comes of it.
        """
        if threading.get_ident() in self._own:
            # The garbage collector came by on one of the threads, which may hold a pool's lock.
            threading.Thread(target=self._shut, args=(False,), daemon=True).start()
            self._pending.clear()
            return []
        self._shut(True)
        begun = []
        for step, planned in self._pending:
            if not planned.done() or planned.cancelled() or planned.exception() is not None:
                break
            begun.append((step, planned.result()))
        self._pending.clear()
        return begun

    def _shut(self, wait: bool) -> None:
        for pool in (self._planner, self._readers):
            pool.shutdown(wait=wait, cancel_futures=True)
