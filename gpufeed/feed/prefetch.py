"""Keeps the next batches under way while one is in use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from gpufeed.errors import ConfigError
from gpufeed.source.wrapper import ReadCancelled

if TYPE_CHECKING:
    from gpufeed.engine.engine import Run
    from gpufeed.feed.maker import Made, Maker
    from gpufeed.open.base import Opened
    from gpufeed.source.wrapper import Wrapper

__all__ = ["ENDED", "Prefetcher"]

T = TypeVar("T")

ENDED = (
    "this iteration was ended by a later one over the same loader, by close(), or by seek() or "
    "load_state_dict() to another epoch; use a new iterator, or a second loader"
)

_TURN = 0.2
"""Seconds after which a wait looks for signals, and whether it was interrupted."""


@dataclass
class _Item:
    """A batch under way: being planned and read, then being opened, then in the engine."""

    step: int
    planned: Future[Future[Opened]]
    run: Run | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can be given to the engine without waiting."""
        return _succeeded(self.planned) and _succeeded(self.planned.result())


def _succeeded(future: Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


class Prefetcher:
    """Hands out batches in order, and works on those that follow.

    One thread plans and reads the batches to come, and has the opener begin on them; those that are
    open are given to the engine, in order. In each of these two stages there are at most
    `prefetch + 1` batches. A batch with bad images is not given to the engine before it is asked
    for, and repaired then. Between two passes nothing is begun; what was begun stays, and the next
    pass continues with it.

    Args:
        maker: makes batches.
        steps_from: gives the numbers of the batches from a step on that have records.
        prefetch: batches worked on ahead of the one asked for, at least 1.
    """

    def __init__(
        self, maker: Maker, steps_from: Callable[[int], Iterator[int]], prefetch: int
    ) -> None:
        self._maker = maker
        self._steps_from = steps_from
        self._prefetch = prefetch
        self._queue: deque[_Item] = deque()
        self._steps: Iterator[int] = iter(())
        self._interrupted = False
        # Made when first used, and kept: see `Wrapper`.
        self._thread: ThreadPoolExecutor | None = None
        self._reader: Wrapper | None = None

    def take(self, step: int) -> Made:
        """Return batch `step`, as `Maker.make` does, and go on with those after it.

        Raises:
            ConfigError: another thread has interrupted it.
        """
        self._maker.open()  # first, so that it is made by one thread, and its errors come first
        if self._interrupted or (self._queue and self._queue[0].step != step):
            self._drop()
        if not self._queue:
            self._steps = self._steps_from(step)
        self._begin(1 + 2 * self._prefetch + 1)
        first = self._queue[0]
        opened = self._wait(self._wait(first.planned))
        self._submit()
        self._queue.popleft()
        made = self._maker.finish(opened, first.run)
        self._begin(2 * self._prefetch + 1)
        self._submit()
        return made

    def _begin(self, count: int) -> None:
        """Begin to plan and read, until so many batches are under way."""
        if self._thread is None or self._reader is None:
            self._thread = ThreadPoolExecutor(1, "gpufeed-plan")
            self._reader = self._maker.reader()
        while len(self._queue) < count:
            step = next(self._steps, None)
            if step is None:
                return
            planned = self._thread.submit(self._maker.prepare, step, self._reader)
            self._queue.append(_Item(step, planned))

    def _submit(self) -> None:
        """Give the engine what is open, in order, as far as there is room."""
        for item in list(self._queue)[: self._prefetch + 1]:
            if item.run is not None:
                continue
            if not item.is_open:
                return
            opened = item.planned.result().result()
            if opened.errors:
                continue
            item.run = self._maker.engine.begin(opened)

    def _wait(self, future: Future[T]) -> T:
        while not future.done() and not self._interrupted:
            wait([future], timeout=_TURN)
        if self._interrupted or future.cancelled():
            raise ConfigError(ENDED)
        try:
            return future.result()
        except ReadCancelled:
            raise ConfigError(ENDED) from None

    def pause(self) -> None:
        """Begin no more; what was begun stays."""
        while self._queue and self._queue[-1].planned.cancel():
            self._queue.pop()
        if self._queue:
            self._steps = self._steps_from(self._queue[-1].step + 1)

    def interrupt(self) -> None:
        """Have whoever waits in `take` wait no longer, and drop what is under way; any thread."""
        self._interrupted = True
        for item in list(self._queue):
            item.planned.cancel()
        if self._reader is not None:
            self._reader.cancel()

    def _drop(self) -> None:
        for item in self._queue:
            item.planned.cancel()
        self._queue.clear()
        self._interrupted = False

    def abandon(self) -> None:
        """Drop what is under way, the engine too: it was stopped halfway."""
        self._drop()
        self._maker.abandon()

    def close(self) -> None:
        """Drop what is under way, and end the threads; using it again starts new ones."""
        self.interrupt()
        self._drop()
        if self._thread is not None:
            self._thread.shutdown()
        if self._reader is not None:
            self._reader.close()
        self._thread = self._reader = None
