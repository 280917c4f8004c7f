"""Feeds planned batches to a DALI pipeline and collects them in order."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from gpufeed._util.dali_private import abandon
from gpufeed.engine.graph import build_pipeline, input_name
from gpufeed.errors import DecodeError, GpufeedError, PipelineError
from gpufeed.open import diagnose
from gpufeed.open.host import HostStages, Opened
from gpufeed.open.job import BadPictures, Failed, Job, bare, finished, out_of_memory, wrap

if TYPE_CHECKING:
    from gpufeed.engine.device import Device
    from gpufeed.open.budget import Budget
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.transforms.program import Program

__all__ = ["Engine"]


class Engine:
    """One DALI pipeline, and the batches under way in it.

    Args:
        program: what the graph does.
        path: from a record key to the name of its file, for errors.
        batch_size: the most records of a batch.
        device: where it runs.
        num_threads: CPU threads of DALI's own, at least 1, and as many more if `opens_on_host`.
        depth: batches that DALI works on at a time, at least 1.
        opens_on_host: whether pictures are decoded and resized before DALI gets them.
        budget: how large those may be together.
    """

    def __init__(
        self,
        program: Program,
        path: Callable[[int], str],
        *,
        batch_size: int,
        device: Device,
        num_threads: int,
        depth: int,
        opens_on_host: bool,
        budget: Budget,
    ) -> None:
        self._path = path
        self._host = HostStages(program, path, num_threads, budget) if opens_on_host else None
        try:
            self._pipeline, self._inputs = build_pipeline(
                program,
                opened=opens_on_host,
                batch_size=batch_size,
                device=device,
                num_threads=num_threads,
                depth=depth,
            )
        except GpufeedError:
            raise
        except Exception as error:  # of what a user's own `build` wrote down, say
            raise PipelineError(
                f"no DALI graph could be made of the transforms: {_brief(error)}"
            ) from error
        self._depth = depth
        self._started = False
        self._jobs: deque[Job | Failed] = deque()
        # What DALI was given to do, in order, and whether anyone wants the outcome (see _start).
        self._runs: deque[tuple[Job, bool]] = deque()
        _all.add(self)

    def __len__(self) -> int:
        """How many jobs are under way."""
        return len(self._jobs)

    @property
    def steps(self) -> list[int]:
        """The steps of the jobs under way, the one that is collected next first."""
        return [job.step if isinstance(job, Failed) else job.plan.step for job in self._jobs]

    @property
    def started(self) -> bool:
        """Whether DALI is at work; it begins with the `depth`-th job."""
        return self._started

    def prepare(
        self, plan: BatchPlan, contents: Sequence[bytes | DecodeError | None], kept: Any = None
    ) -> Future[Job | Failed]:
        """Begin what is done to a batch before it can be submitted; for any thread.

        Args:
            plan: the batch.
            contents: per record its encoded picture, or why there is none; None where all is as it
                was when the batch failed.
            kept: of that, `BadPictures.kept`.
        """
        if kept is not None:
            encoded = kept.encoded if isinstance(kept, Opened) else kept
            contents = [
                encoded[place] if content is None else content
                for place, content in enumerate(contents)
            ]
        errors = {
            place: content
            for place, content in enumerate(contents)
            if isinstance(content, DecodeError)
        }
        if errors:
            opened = isinstance(kept, Opened)
            known = Opened(contents, kept.views, kept.good) if opened else contents
            return finished(Failed(plan.step, BadPictures(errors, known)))
        read = [content for content in contents if isinstance(content, bytes)]
        if self._host is not None:
            return self._host.begin(plan, read, kept if isinstance(kept, Opened) else None)
        for place, content in enumerate(read):
            key, size = int(plan.record_keys[place]), tuple(plan.sizes[place].tolist())
            try:
                # Before a byte is set aside for what a header promises.
                diagnose.check_header(content, size, key, self._path)
            except DecodeError as error:
                errors[place] = bare(error)
        if errors:
            return finished(Failed(plan.step, BadPictures(errors, read)))
        return finished(Job(plan, [wrap(read, "")], read))

    def submit(self, job: Job | Failed) -> None:
        """Begin work on a job."""
        self._jobs.append(job)
        if isinstance(job, Failed):
            return
        self._feed(job, wanted=True)
        if self._started:
            self._pipeline.schedule_run()
        elif len(self._runs) == self._depth:
            self._start()

    def _feed(self, job: Job, *, wanted: bool) -> None:
        for number, pictures in enumerate(job.pictures):
            self._pipeline.feed_input(input_name(number), pictures)
        for name in self._inputs:
            self._pipeline.feed_input(name, job.plan.params[name])
        self._runs.append((job, wanted))

    def _start(self) -> None:
        # The first schedule_run() starts `depth` runs at once, so each must have been fed.
        while len(self._runs) < self._depth:
            self._feed(self._runs[-1][0], wanted=False)
        self._pipeline.schedule_run()
        self._started = True

    def collect(self) -> tuple[BatchPlan, list[Any]]:
        """Wait for the job submitted first, and take it out.

        Returns:
            Its plan, and for each view DALI's dense tensor of its pictures, valid while it is held.

        Raises:
            BadPictures: some could not be read or decoded; the next job is not affected.
            Exception: what else kept the batch from being a job.
            PipelineError: DALI failed otherwise.
        """
        job = self._jobs.popleft()
        if isinstance(job, Failed):
            raise job.raised()
        if not self._started:
            self._start()
        while not self._runs[0][1]:
            self._run_out()
        self._runs.popleft()
        try:
            outputs = self._pipeline.share_outputs()
            views = [pictures.as_tensor() for pictures in outputs]
        except Exception as error:
            self._pipeline.release_outputs()
            raise self._explain(job, error) from None
        self._pipeline.release_outputs()
        return job.plan, views

    def drain(self) -> None:
        """Drop all jobs under way."""
        if self._runs and not self._started:
            self._start()
        while self._runs:
            self._run_out()
        self._jobs.clear()

    def _run_out(self) -> None:
        """Wait for the oldest run and forget what came of it."""
        try:
            self._pipeline.share_outputs()
        except RuntimeError:
            pass  # a bad picture in a batch that nobody wants any more
        finally:
            self._pipeline.release_outputs()
            self._runs.popleft()

    def close(self) -> None:
        """Drop all jobs and end the threads."""
        self.drain()
        if self._host is not None:
            self._host.close()

    def _explain(self, job: Job, error: Exception) -> Exception:
        plan = job.plan
        errors = diagnose.blame(job.contents, plan, self._path)
        if errors:
            return BadPictures(errors, job.contents)
        said = _brief(error)
        if "bad_alloc" in str(error) or "out of memory" in str(error).lower():
            return out_of_memory(said)
        return PipelineError(
            f"DALI failed on batch {plan.step}, though each of its pictures can be decoded: {said}"
        )


def _disown() -> None:
    """In a forked process, leave alone what belongs to threads that did not come along."""
    for engine in list(_all):
        abandon(engine._pipeline)
        engine._runs.clear()
        engine._jobs.clear()


_all: weakref.WeakSet[Engine] = weakref.WeakSet()
os.register_at_fork(after_in_child=_disown)


def _brief(error: Exception) -> str:
    """What DALI says on one line, without the places in its own source that follow."""
    return " ".join(str(error).partition("Stacktrace")[0].split())
