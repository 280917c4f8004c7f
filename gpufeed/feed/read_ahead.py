"""Plans and reads the next batches on a thread, and hands them over in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future, wait
from typing import Any, Generic, TypeVar

__all__ = ["Begun", "ReadAhead", "await_result"]

T = TypeVar("T")

Begun = Sequence[tuple[int, Future[Future[T]]]]
"""Steps, and for each what comes when it is planned: what comes when it is made."""

_TURN = 0.2
"""Seconds after which a wait looks for signals."""


def await_result(future: Future[T]) -> T:
    """Wait for what is coming, so that Ctrl-C is heard."""
    # In turns, since polars' signal handler keeps Ctrl-C from a main thread that waits on.
    while not future.done():
        wait([future], timeout=_TURN)
    return future.result()


class ReadAhead(Generic[T]):
    """Calls `prepare(step)` for the steps to come, before they are asked for.

    Args:
        prepare: called on the planner's thread; the future that it returns may come later.
        steps: the steps, in order.
        planner: has one thread. One plans, and mostly reads as well: more would only take turns at
            the interpreter.
        give_up: has the planner's thread wait no longer for what it may wait for.
        begun: what an earlier one handed back when it was closed, of the steps before these.
        ahead: how many are begun before they are asked for, at least 1.
    """

    def __init__(
        self,
        prepare: Callable[[int], Future[T]],
        steps: Iterator[int],
        *,
        planner: Executor,
        give_up: Callable[[], None] = lambda: None,
        begun: Begun[T] = (),
        ahead: int,
    ) -> None:
        self._prepare = prepare
        self._steps = steps
        self._planner = planner
        self._give_up = give_up
        self._closed = False
        self._pending = deque(begun)
        while len(self._pending) < ahead and self._begin_next():
            pass

    def _begin_next(self) -> bool:
        step = next(self._steps, None)
        if step is not None:
            self._pending.append((step, self._planner.submit(self._prepare, step)))
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
        """Wait for the next step's result.

        Raises:
            CancelledError: another thread closed this meanwhile.
        """
        if not self._pending:
            raise StopIteration
        _, planned = self._pending[0]
        self._wait(planned)
        if planned.exception() is None:
            self._wait(planned.result())
        self._pending.popleft()
        self._begin_next()
        return planned.result().result()

    def _wait(self, future: Future[Any]) -> None:
        """Wait as `await_result` does; raises CancelledError once this is closed."""
        while not future.done() and not self._closed:
            wait([future], timeout=_TURN)
        if self._closed:
            raise CancelledError

    def close(self, *, keep: bool = True) -> Begun[T]:
        """Begin no more steps; waits for nothing.

        Args:
            keep: whether what was begun is gone on with; else nobody waits for it any more.

        Returns:
            What was begun and can be gone on with.
        """
        self._closed = True
        pending, self._pending = self._pending, deque()
        begun = [(step, planned) for step, planned in pending if not planned.cancel()]
        if not keep:
            self._give_up()
            return []
        return begun
