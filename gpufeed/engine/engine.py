"""Running opened batches through a DALI pipeline."""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpufeed._util.dali_private import abandon, shut_down
from gpufeed.engine.graph import define_pipeline, rest_feeds
from gpufeed.errors import DecodeError, GpufeedError
from gpufeed.open.base import Opened
from gpufeed.open.dali_errors import brief, is_out_of_memory, sample_of, translated

if TYPE_CHECKING:
    from gpufeed.engine.device import Device
    from gpufeed.open.base import Opener
    from gpufeed.plan.stages import Stages

__all__ = ["Engine", "Run"]


class Run:
    """A batch in the pipeline.

    Attributes:
        token: identifies the engine that runs it, without keeping it alive.
        opened: the batch, which DALI reads in place until the run has finished.
        outcome: None until the run has finished; then for each view DALI's tensor of its images,
            valid while it is held, or the exception that DALI raised.
    """

    def __init__(self, token: object, opened: Opened) -> None:
        self.token = token
        self.opened = opened
        self.outcome: list[Any] | Exception | None = None


class Engine:
    """A DALI pipeline and the batches running in it.

    Args:
        stages: the stages of any batch.
        opener: opens images.
        batch_size: the most records of a batch.
        device: the device to run on.
        num_threads: CPU threads of DALI, at least 1.
        depth: batches that DALI works on at a time, at least 1.
        dense: whether the images of a view have one size; otherwise results are DALI's lists in the
            place of its tensors.

    Attributes:
        broken: whether it was interrupted or failed, and must not be used again.

    Raises:
        PipelineError: DALI cannot build a graph from the stages.
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
        dense: bool = True,
    ) -> None:
        self._opener = opener
        self._dense = dense
        try:
            self._pipeline = define_pipeline(
                stages,
                opener,
                batch_size=batch_size,
                device=device,
                num_threads=num_threads,
                depth=depth,
            )
            self._pipeline.build()
        except GpufeedError:
            raise
        except Exception as error:  # DALI may reject the operators of a user's own transform
            raise translated(error, "DALI cannot build a graph of the transforms") from error
        self._depth = depth
        self._started = False
        self.broken = False
        self._token = object()
        # The runs in DALI, in the order of its outputs.
        self._runs: deque[Run] = deque()
        _all.add(self)

    def has(self, run: Run | None) -> bool:
        """Whether `begin` of this engine returned `run`."""
        return run is not None and run.token is self._token

    def begin(self, opened: Opened) -> Run:
        """Start to run a batch, all of whose images are open.

        Raises:
            PipelineError: DALI refuses it.
        """
        with self._breaking():
            while len(self._runs) > self._depth:
                self._collect()  # so that DALI always has room
            run = Run(self._token, opened)
            try:
                self._feed(run)
            except Exception as error:
                raise translated(
                    error,
                    f"DALI refuses batch {opened.plan.step}, for which a transform may have drawn "
                    "arrays of another shape or dtype than for other batches",
                ) from None
            if self._started:
                self._pipeline.schedule_run()
            elif len(self._runs) == self._depth:
                self._start()
        return run

    @contextlib.contextmanager
    def _breaking(self) -> Iterator[None]:
        """Mark the engine as broken if the block raises anything, such as KeyboardInterrupt.

        DALI's queues may then hold inputs of a batch that `_runs` does not, or the reverse.
        """
        try:
            yield
        except BaseException:
            self.broken = True
            raise

    def _feed(self, run: Run) -> None:
        for name, values in run.opened.feeds.items():
            # Images on a GPU are gathered by one kernel, and not by a copy for each.
            self._pipeline.feed_input(name, values, use_copy_kernel=True)
        for name, values in rest_feeds(run.opened.plan.stages).items():
            self._pipeline.feed_input(name, values)
        self._runs.append(run)

    def _start(self) -> None:
        # The first schedule_run() starts `depth` runs at once, so all need their inputs.
        while len(self._runs) < self._depth:
            self._feed(Run(self._token, self._runs[-1].opened))
        self._pipeline.schedule_run()
        self._started = True

    def result(self, run: Run) -> list[Any] | dict[int, DecodeError]:
        """Wait for a run that `begin` returned.

        Returns:
            For each view DALI's tensor of its images, valid while it is held. If the graph failed
            on some images, their errors by place instead; other batches are not affected.

        Raises:
            PipelineError: DALI failed for another reason.
        """
        with self._breaking():
            if not self._started:
                self._start()
                while self._runs:  # also repeated ones, which would hold the batch's memory
                    self._collect()
            while run.outcome is None:
                self._collect()
        outcome, run.outcome = run.outcome, None
        if isinstance(outcome, list):
            return outcome
        message = brief(outcome)
        errors = {} if is_out_of_memory(outcome) else self._opener.blame(run.opened, message)
        if errors:
            return errors
        self.broken = True  # it may fail on every later batch too
        said = (
            f"DALI failed on batch {run.opened.plan.step}, although each of its images can be "
            "decoded"
        )
        if sample_of(message) is not None:
            said += ", so a decoder may have run out of memory"
        raise translated(outcome, said)

    def _collect(self) -> None:
        """Wait for the oldest run and store its outcome."""
        run = self._runs[0]
        # Without a stream, `share_outputs` waits for this run, and for no work of the consumer's:
        # DALI reads the inputs in place, so their memory may be reused only after the run.
        try:
            shared = self._pipeline.share_outputs()
            run.outcome = [images.as_tensor() if self._dense else images for images in shared]
        except Exception as error:
            run.outcome = error.with_traceback(None)
        self._pipeline.release_outputs()
        self._runs.popleft()

    def drain(self) -> None:
        """Wait for all runs and drop their outcomes."""
        with self._breaking():
            if self._runs and not self._started:
                self._start()
            while self._runs:
                self._collect()


def _disown() -> None:
    """Abandon all pipelines in a forked process, which has none of their threads."""
    for engine in list(_all):
        abandon(engine._pipeline)
        engine._runs.clear()


def _shut_down() -> None:
    for engine in list(_all):
        shut_down(engine._pipeline)


_all: weakref.WeakSet[Engine] = weakref.WeakSet()
os.register_at_fork(after_in_child=_disown)
atexit.register(_shut_down)
