"""The position of a loader, and its passes over epochs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from gpufeed.errors import ConfigError, PipelineError
from gpufeed.feed.prefetch import Interrupted, Prefetcher
from gpufeed.feed.stats import Clock, Stats

if TYPE_CHECKING:
    from gpufeed.feed.batch import HandOver
    from gpufeed.feed.loader import Loader
    from gpufeed.feed.maker import Maker
    from gpufeed.order.schedule import Schedule

__all__ = ["Cursor", "Pass"]

ENDED = (
    "this iteration was ended by a later one over the same loader, by close(), by seek() or "
    "load_state_dict() to another epoch, or by a process group initialized since; use a new "
    "iterator, or a second loader"
)


class Cursor:
    """The number of the next batch, and the pass that hands it out.

    One pass runs at a time: a new pass ends the one before it. Threads that request batches take
    turns.

    Args:
        schedule: the batches of each epoch.
        maker: makes batches.
        hand_over: turns them into arrays of the framework.
        prefetch: batches prepared ahead of the one requested.

    Attributes:
        step: number of the batch that is handed out next.
        placed: whether `seek` chose `step`, and no batch has been handed out since.
        clock: the clock of the current pass, or else of the last one.
        passes: the number of passes that have been started.
        waits: whether a consumer waits for a batch at this moment.
        turn: held while a batch is made; reentrant, since a user's function may request a batch.
    """

    def __init__(
        self, schedule: Schedule, maker: Maker, hand_over: HandOver, prefetch: int
    ) -> None:
        self.step = 0
        self.placed = False
        # The step up to which the pass has come: at the end of an epoch, the first of the next one.
        self._reached: int | None = None
        # Counts calls of `seek`, so that a batch made meanwhile does not undo one.
        self._moves = 0
        self.clock = Clock(maker)
        self.passes = 0
        self.waits = False
        self.turn = threading.RLock()
        self._schedule = schedule
        self._maker = maker
        self._prefetcher = Prefetcher(maker, schedule.steps_from, prefetch)
        self._hand_over = hand_over
        # Weak, so that a loop that is left early stops prefetching.
        self._pass: weakref.ref[Pass] | None = None

    @property
    def epoch(self) -> int:
        """Epoch of the batch that is handed out next."""
        return self._schedule.epoch_of(self.step)

    @property
    def stats(self) -> Stats:
        """The figures of the current pass, or else of the last one; callable from any thread."""
        step, end = self.step, self._schedule.num_steps
        of = step - 1 if step and self._reached == step else step
        epoch = self._schedule.epoch_of(of if end is None else min(of, end - 1))
        steps = self._schedule.steps_of(epoch)
        return self.clock.read(self._prefetcher.ready, step, epoch, steps)

    def steps_of(self, epoch: int) -> range:
        """Return the numbers of the batches of an epoch."""
        return self._schedule.steps_of(epoch)

    def start(self, started: Pass) -> Pass:
        """End the current pass and make `started` the current one; it continues from `step`."""
        self.supersede()
        self.clock = Clock(self._maker)
        self.passes += 1
        self._reached = None
        self._pass = weakref.ref(started)
        return started

    def supersede(self) -> None:
        """End the current pass in favour of another."""
        current = self._current()
        if current is not None:
            current.supersede()

    @property
    def running(self) -> bool:
        """Whether the current pass has handed out a batch, and another may follow."""
        current = self._current()
        return current is not None and current.running

    def _current(self) -> Pass | None:
        return None if self._pass is None else self._pass()

    def next(self, steps: range) -> Any:
        """Return the next batch of `steps` and advance past it.

        Raises:
            StopIteration: there is none.
        """
        self.clock.asked()
        while True:
            moves = self._moves
            step = next(self._schedule.steps_from(self.step), steps.stop)
            if step >= steps.stop:
                if self._hand_over.canary is not None:
                    self._hand_over.canary.settle()
                end = self._schedule.num_steps
                self.step = self._reached = steps.stop if end is None else min(steps.stop, end)
                raise StopIteration
            try:
                with self._maker.spans.range("wait", step):
                    plan, views = self._prefetcher.take(step)
                    handed_out = self._hand_over.deliver(plan, views, self.clock)
            except Interrupted:
                if moves == self._moves or not steps.start <= self.step <= steps.stop:
                    raise ConfigError(ENDED) from None
                continue  # another thread moved to another batch of this pass
            except StopIteration as error:  # a for loop would take it for the end of the pass
                self._prefetcher.interrupt()
                raise PipelineError(
                    "a sampler, a transform, on_error or collate_fn raised StopIteration"
                ) from error
            except BaseException:
                self._prefetcher.interrupt()
                raise
            # Last, so that a signal handler that saves a state never skips a batch.
            if moves == self._moves:
                self.step, self.placed, self._reached = step + 1, False, step + 1
            return handed_out

    def seek(self, step: int) -> None:
        """Move to a batch; the current pass continues from there if it is one of its steps."""
        self._moves += 1
        self.step, self.placed, self._reached = step, True, None
        self._prefetcher.interrupt()

    def pause(self) -> None:
        """Start no further work until the next batch is requested."""
        if not self._maker.threads_gone():
            self._prefetcher.pause()

    def check_process(self) -> None:
        """Raise `ConfigError` in a forked process."""
        # Call it before taking the lock: a thread that the fork did not copy may hold it.
        self._maker.check_process()

    def close(self) -> None:
        """Stop all work; using the cursor again starts new work. A forked process has none."""
        if self._maker.threads_gone():
            return
        self._prefetcher.interrupt()  # first, so that threads waiting for a batch stop waiting
        self.supersede()
        with self.turn:
            self._prefetcher.close()
            self._maker.close()
            if self._hand_over.canary is not None:
                self._hand_over.canary.close()


class Pass(Iterator[Any]):
    """One iteration over batches: running, then finished or superseded.

    Trainers make the iterator first and announce the epoch afterwards. Its state is the loader's,
    under the names that Grain's iterators use, so that Orbax saves and restores either.

    Args:
        loader: the loader that is iterated.
        cursor: hands out its batches.
        steps: the steps of the iteration; None for those of the epoch in which the first batch is
            requested.
        begin: called before the first batch, since a process group may have been initialized.
        agree: called before each batch; waits for other processes where it must.

    Attributes:
        begun: whether a batch was requested.
    """

    def __init__(
        self,
        loader: Loader,
        cursor: Cursor,
        steps: range | None,
        begin: Callable[[], None],
        agree: Callable[[], None],
    ) -> None:
        self._loader = loader
        self._cursor = cursor
        self._begin = begin
        self._agree = agree
        self._given = self._steps = steps
        self.begun = False
        self._finished = False
        self._superseded = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        self._cursor.check_process()
        with self._cursor.turn:
            if not self.begun:
                self._begin()
                self.begun = True
        if self.running:
            self._agree()  # not in the turn, which close() waits for
        with self._cursor.turn:
            if self._steps is None:
                self._steps = self._cursor.steps_of(self._cursor.epoch)
            within = self._steps.start <= self._cursor.step <= self._steps.stop
            if self._superseded or not (self._finished or within):
                raise ConfigError(ENDED)
            if self._finished:
                raise StopIteration
            self._cursor.waits = True
            try:
                return self._cursor.next(self._steps)
            except StopIteration:
                self.close()
                raise
            finally:
                self._cursor.waits = False

    @property
    def running(self) -> bool:
        """Whether a batch was requested, and another may follow."""
        return self.begun and not (self._finished or self._superseded)

    def get_state(self) -> bytes:
        """Return the loader's state as JSON; see `Loader.get_state`."""
        return self._loader.get_state()

    def set_state(self, state: bytes) -> None:
        """Move the loader to the result of `get_state`, and continue from there, in any epoch.

        Raises:
            StateError: see `Loader.load_state_dict`.
        """
        self._loader.set_state(state)
        self._cursor.start(self)
        self._steps, self._finished, self._superseded = self._given, False, False
        self.begun = False

    def start_prefetch(self) -> None:
        """Do nothing; see `Loader.start_prefetch`."""

    def close(self) -> None:
        """Stop prefetching; the next pass continues with the work already started."""
        if not self._finished:
            self._finished = True
            self._cursor.pause()

    def supersede(self) -> None:
        """End this pass in favour of another."""
        self._superseded |= not self._finished
        self.close()

    def __del__(self) -> None:
        self.close()
