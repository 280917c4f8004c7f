"""Preparing the next batches while one is in use."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from gpufeed.errors import PipelineError
from gpufeed.source.wrapper import ReadCancelled

if TYPE_CHECKING:
    from gpufeed.engine.engine import Run
    from gpufeed.feed.maker import Made, Maker
    from gpufeed.feed.patience import Patience
    from gpufeed.open.base import Opened
    from gpufeed.source.wrapper import Wrapper

__all__ = ["Interrupted", "Prefetcher"]

T = TypeVar("T")

_POLL_SECONDS = 0.2
"""Interval at which a wait checks for signals and for an interruption."""


class Interrupted(Exception):  # noqa: N818 - no error of the batch
    """A wait for a batch was interrupted by `close` or by a move to another batch."""


@dataclass
class _Item:
    """A batch in progress: first planned and read, then opened, then run by the engine."""

    step: int
    planned: Future[Future[Opened]]
    run: Run | None = None
    refused: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the engine can take it without waiting."""
        return _succeeded(self.planned) and _succeeded(self.planned.result())

    @property
    def is_ready(self) -> bool:
        """Whether it is open, with no image to repair."""
        return self.is_open and not self.planned.result().result().errors

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled before it was planned."""
        return self.planned.cancelled()


def _succeeded(future: Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


class Prefetcher:
    """Hands out batches in order, and prepares those that follow.

    One thread, or a few for a source that makes requests, plans and reads upcoming batches and
    passes them to the opener. Opened batches go to the engine, in order. Each of these two stages
    holds at most `prefetch + 1` batches. A batch with bad images does not go to the engine until it
    is requested, and is repaired then. Between two passes no work is started; work already started
    is kept for the next pass.

    Args:
        maker: makes batches.
        steps_from: yields the steps from a given one on in which this shard has records.
        prefetch: batches prepared ahead of the one requested, at least 1.
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
        # Made when first used, and kept between passes: see `Wrapper`.
        self._thread: ThreadPoolExecutor | None = None
        self._reader: Wrapper | None = None

    def take(self, step: int) -> Made:
        """Return batch `step`, as `Maker.make` does, and continue with those after it.

        Raises:
            Interrupted: `interrupt` was called during the wait.
        """
        self._maker.open()  # first, so that one thread makes the engine and its errors come first
        if self._interrupted or (self._queue and self._queue[0].step != step):
            self._drop()
        self._forget_cancelled()
        self._steps = self._steps_from(self._queue[-1].step + 1 if self._queue else step)
        self._begin(2 * self._prefetch + 1)
        patience = self._maker.patience(step)
        opened = self._wait(self._wait(self._queue[0].planned, patience), patience)
        self._submit(self._prefetch + 1)
        made = self._maker.finish(opened, self._queue.popleft().run)
        del opened  # so that the next batch takes its memory
        self._begin(2 * self._prefetch + 1)
        self._submit(self._prefetch)
        return made

    @property
    def ready(self) -> int:
        """The number of batches, from the next one on, all of whose images are open."""
        return sum(1 for _ in itertools.takewhile(lambda item: item.is_ready, list(self._queue)))

    def _begin(self, count: int) -> None:
        """Start to plan and read batches until `count` are in progress."""
        if self._thread is None or self._reader is None:
            self._reader = self._maker.reader()
            self._thread = ThreadPoolExecutor(self._reader.batches, "gpufeed-plan")
        while len(self._queue) < count:
            step = next(self._steps, None)
            if step is None:
                return
            planned = self._thread.submit(self._maker.prepare, step, self._reader)
            self._queue.append(_Item(step, planned))

    def _submit(self, count: int) -> None:
        """Pass the first `count` batches to the engine, in order, as far as they are opened."""
        for item in list(self._queue)[:count]:
            engine = self._maker.engine
            if item.refused or engine.has(item.run):
                continue
            if not item.is_open:
                return
            opened = item.planned.result().result()
            if opened.errors:
                continue
            try:
                item.run = self._maker.begin(opened)
            except PipelineError:
                item.refused = True  # raised again when the batch is requested

    def _wait(self, future: Future[T], patience: Patience) -> T:
        while not future.done() and not self._interrupted:
            wait([future], timeout=_POLL_SECONDS)
            patience.check()
        if self._interrupted or future.cancelled():
            raise Interrupted
        try:
            return future.result()
        except ReadCancelled:
            raise Interrupted from None

    def pause(self) -> None:
        """Start no further batches; keep those already started; callable from any thread."""
        # Only `take` changes the queue, since it may be under way in another thread.
        for item in reversed(list(self._queue)):
            if not item.planned.cancel():
                return

    def _forget_cancelled(self) -> None:
        """Drop the first cancelled batch and those after it."""
        kept = sum(1 for _ in itertools.takewhile(lambda item: not item.cancelled, self._queue))
        while len(self._queue) > kept:
            self._queue.pop().planned.cancel()

    def interrupt(self) -> None:
        """Interrupt a wait in `take` and cancel all work; callable from any thread."""
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

    def close(self) -> None:
        """Drop all work and end the threads; using the prefetcher again starts new ones."""
        self.interrupt()
        self._drop()
        thread, reader = self._thread, self._reader
        self._thread = self._reader = None
        if thread is not None:
            thread.shutdown()
        if reader is not None:
            reader.close()
