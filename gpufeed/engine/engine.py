"""Runs opened batches through a DALI pipeline."""

from __future__ import annotations

import os
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from gpufeed._util.dali_private import abandon
from gpufeed.engine.graph import build_pipeline, rest_feeds
from gpufeed.errors import DecodeError, GpufeedError, PipelineError
from gpufeed.open.base import Opened, out_of_memory

if TYPE_CHECKING:
    from gpufeed.engine.device import Device
    from gpufeed.open.base import Opener
    from gpufeed.plan.stages import Stages

__all__ = ["Engine", "Run"]


class Run:
    """A batch in the pipeline.

    Attributes:
        opened: the batch, which DALI reads in place until the run is over.
        outcome: once it is over, for each view DALI's dense tensor of its images, valid while it is
            held; or what DALI raised.
    """

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.outcome: list[Any] | Exception | None = None


class Engine:
    """One DALI pipeline, and the batches under way in it.

    Args:
        stages: of any batch.
        opener: opens images.
        batch_size: the most records of a batch.
        device: where it runs.
        num_threads: CPU threads of DALI's own, at least 1.
        depth: batches that DALI works on at a time, at least 1.

    Raises:
        PipelineError: DALI cannot make a graph of the stages.
    """

    def __init__(
        self,
        stages: Stages,
        opener: Opener,
        *,
        batch_size: int,
        device: Device,
        num_threads: int,
        depth: int,
    ) -> None:
        self._opener = opener
        try:
            self._pipeline = build_pipeline(
                stages,
                opener,
                batch_size=batch_size,
                device=device,
                num_threads=num_threads,
                depth=depth,
            )
        except GpufeedError:
            raise
        except Exception as error:  # what a user's own `build` adds may be refused
            raise PipelineError(
                f"no DALI graph could be made of the transforms: {_brief(error)}"
            ) from error
        self._depth = depth
        self._started = False
        # What DALI was given to do, in the order in which it gives its outputs.
        self._runs: deque[Run] = deque()
        _all.add(self)

    def begin(self, opened: Opened) -> Run:
        """Begin to run a batch, all of whose images are open."""
        while len(self._runs) > self._depth:
            self._take_out()  # so that DALI always has room
        run = Run(opened)
        self._feed(run)
        if self._started:
            self._pipeline.schedule_run()
        elif len(self._runs) == self._depth:
            self._start()
        return run

    def _feed(self, run: Run) -> None:
        for name, values in run.opened.feeds.items():
            self._pipeline.feed_input(name, values)
        for name, values in rest_feeds(run.opened.plan.stages).items():
            self._pipeline.feed_input(name, values)
        self._runs.append(run)

    def _start(self) -> None:
        # The first schedule_run() starts `depth` runs at once, so each must have been fed.
        while len(self._runs) < self._depth:
            self._feed(Run(self._runs[-1].opened))
        self._pipeline.schedule_run()
        self._started = True

    def result(self, run: Run) -> list[Any] | dict[int, DecodeError]:
        """Wait for a run that `begin` returned.

        Returns:
            For each view DALI's dense tensor of its images, valid while it is held; or, by place,
            the errors of the images over which the graph failed. Other batches are not affected.

        Raises:
            PipelineError: DALI failed otherwise.
        """
        if not self._started:
            self._start()
        while run.outcome is None:
            self._take_out()
        outcome, run.outcome = run.outcome, None
        if isinstance(outcome, list):
            return outcome
        errors = self._opener.blame(run.opened)
        if errors:
            return errors
        said = _brief(outcome)
        if "bad_alloc" in said or "out of memory" in said.lower():
            raise out_of_memory(said)
        raise PipelineError(
            f"DALI failed on batch {run.opened.plan.step}, though each of its images can be "
            f"decoded: {said}"
        )

    def _take_out(self) -> None:
        """Wait for the oldest run, and keep what came of it in the run."""
        run = self._runs[0]
        try:
            run.outcome = [images.as_tensor() for images in self._pipeline.share_outputs()]
        except Exception as error:
            run.outcome = error.with_traceback(None)
        self._pipeline.release_outputs()
        self._runs.popleft()

    def drain(self) -> None:
        """Wait for all runs, and drop what came of them."""
        if self._runs and not self._started:
            self._start()
        while self._runs:
            self._take_out()


def _disown() -> None:
    """In a forked process, leave alone what belongs to threads that did not come along."""
    for engine in list(_all):
        abandon(engine._pipeline)
        engine._runs.clear()


_all: weakref.WeakSet[Engine] = weakref.WeakSet()
os.register_at_fork(after_in_child=_disown)


def _brief(error: Exception) -> str:
    """What DALI says on one line, without the places in its own source that follow."""
    return " ".join(str(error).partition("Stacktrace")[0].split())
