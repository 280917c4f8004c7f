"""Where a loader stands, and its passes over epochs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from gpufeed.errors import ConfigError, GpufeedError, PipelineError
from gpufeed.feed.prefetch import ENDED, Prefetcher
from gpufeed.feed.stats import Clock

if TYPE_CHECKING:
    from gpufeed.feed.batch import HandOver
    from gpufeed.feed.maker import Maker
    from gpufeed.order.schedule import Schedule

__all__ = ["Cursor", "Pass"]


class Cursor:
    """The number of the next batch, and the pass that hands it out.

    There is one pass at a time: a later one overtakes it. All threads that ask for batches take
    turns.

    Args:
        schedule: the batches of each epoch.
        maker: makes batches.
        hand_over: makes what is handed out.
        prefetch: batches worked on ahead of the one asked for.

    Attributes:
        step: number of the batch that is handed out next.
        clock: of the pass under way, or else of the last one.
        turn: held while a batch is made. Entered again where a user's function asks for a batch.
    """

    def __init__(
        self, schedule: Schedule, maker: Maker, hand_over: HandOver, prefetch: int
    ) -> None:
        self.step = 0
        self.clock = Clock()
        self.turn = threading.RLock()
        self._schedule = schedule
        self._maker = maker
        self._prefetcher = Prefetcher(maker, schedule.steps_from, prefetch)
        self._hand_over = hand_over
        # Weak, so that nothing more is read ahead for a loop that is left early.
        self._pass: weakref.ref[Pass] | None = None

    def start(self) -> Pass:
        """Start a pass from `step` to the end of its epoch."""
        self.overtake()
        self.clock = Clock()
        per_epoch = self._schedule.steps_per_epoch
        first = self.step // per_epoch * per_epoch
        started = Pass(self, range(first, first + per_epoch))
        self._pass = weakref.ref(started)
        return started

    def overtake(self) -> None:
        """End the pass under way for the sake of another."""
        under_way = None if self._pass is None else self._pass()
        if under_way is not None:
            under_way.overtake()

    def next(self, steps: range) -> Any:
        """Return the next batch of an epoch and go past it.

        Raises:
            StopIteration: the epoch is over.
        """
        self.clock.asked()
        step = next(self._schedule.steps_from(self.step), steps.stop)
        if step >= steps.stop:
            self.step = steps.stop
            raise StopIteration
        try:
            plan, views = self._prefetcher.take(step)
            handed_out = self._hand_over.deliver(plan, views, self.clock)
        except GpufeedError:
            self._prefetcher.interrupt()
            raise
        except StopIteration as error:  # which a for loop would take for the end
            self._prefetcher.abandon()
            raise PipelineError(
                "a sampler, a transform, on_error or collate_fn raised StopIteration"
            ) from error
        except BaseException:
            # Stopped halfway, by Ctrl-C say: what is under way and what is noted may differ.
            self._prefetcher.abandon()
            raise
        # Last of all: a signal's handler, which may save a state, runs where something is called.
        self.step = step + 1
        return handed_out

    def seek(self, step: int) -> None:
        """Go to a batch; a pass under way goes on from there, if it lies in the same epoch."""
        self._prefetcher.interrupt()
        self.step = step

    def pause(self) -> None:
        """Begin nothing more until the next batch is asked for."""
        self._prefetcher.pause()

    def check_process(self) -> None:
        """Raise `ConfigError` in a process that came by a fork."""
        # Before the lock, which a thread that did not come along may have held.
        self._maker.check_process()

    def close(self) -> None:
        """End all work; using the cursor again starts new work."""
        self._prefetcher.interrupt()  # first, so that whoever waits in another thread waits no more
        self.overtake()
        with self.turn:
            self._prefetcher.close()
            self._maker.close()


class Pass(Iterator[Any]):
    """One iteration over an epoch's batches: under way, then over or overtaken.

    Args:
        cursor: hands out batches.
        steps: the epoch's.
    """

    def __init__(self, cursor: Cursor, steps: range) -> None:
        self._cursor = cursor
        self._steps = steps
        self._over = False
        self._overtaken = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        self._cursor.check_process()
        with self._cursor.turn:
            within = self._steps.start <= self._cursor.step <= self._steps.stop
            if self._overtaken or not (self._over or within):
                raise ConfigError(ENDED)
            if self._over:
                raise StopIteration
            try:
                return self._cursor.next(self._steps)
            except StopIteration:
                self.close()
                raise

    def close(self) -> None:
        """Read no more ahead; the next pass goes on with what was begun."""
        if not self._over:
            self._over = True
            self._cursor.pause()

    def overtake(self) -> None:
        """End this pass for the sake of another."""
        self._overtaken = not self._over
        self.close()

    def __del__(self) -> None:
        self.close()
