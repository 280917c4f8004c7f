"""Feeds planned batches to a DALI pipeline and collects them in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from nvidia.dali import tensors

from gpufeed.engine import diagnose
from gpufeed.engine.graph import ENCODED, build_pipeline
from gpufeed.errors import DecodeError, PipelineError

if TYPE_CHECKING:
    from gpufeed.engine.device import Device
    from gpufeed.plan import BatchPlan
    from gpufeed.transforms.compose import Program

__all__ = ["Engine", "Failed", "Job", "prepare"]


@dataclass(frozen=True)
class Job:
    """A planned batch with its encoded pictures, ready to be fed.

    It must live until it is collected: DALI reads `contents` and the plan's arrays in place.

    Attributes:
        plan: the batch.
        contents: the encoded pictures.
        encoded: the same as a DALI `TensorList` that shares their memory.
    """

    plan: BatchPlan
    contents: Sequence[bytes]
    encoded: Any


@dataclass(frozen=True)
class Failed:
    """What stands for batch `step` where it came to no job; `error` is raised in its turn."""

    step: int
    error: Exception


def prepare(
    plan: BatchPlan, contents: Sequence[bytes | OSError], path: Callable[[int], str]
) -> Job | Failed:
    """Wrap encoded pictures for feeding; for any thread.

    Args:
        plan: the batch.
        contents: per record its encoded picture, or the error that reading it met.
        path: from a record key to the name of its file.
    """
    read = [content for content in contents if isinstance(content, bytes)]
    if len(read) < len(contents):
        return Failed(
            plan.step,
            _first_of(
                [
                    DecodeError(int(key), path(int(key)), f"can not be read: {_words(content)}")
                    for key, content in zip(plan.record_keys, contents, strict=True)
                    if isinstance(content, OSError)
                ]
            ),
        )
    # As a TensorList, since feed_input() takes three times as long for a list of arrays.
    wrapped = [tensors.TensorCPU(content, "") for content in read]
    return Job(plan, read, tensors.TensorListCPU(wrapped, contiguous=False))


class Engine:
    """One DALI pipeline, and the batches under way in it.

    Args:
        program: what the graph does.
        path: from a record key to the name of its file, for errors.
        batch_size: the most records of a batch.
        device: where it runs.
        num_threads: CPU threads of DALI's own, at least 1.
        depth: batches that DALI works on at a time, at least 1.
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
    ) -> None:
        self._path = path
        try:
            self._pipeline = build_pipeline(
                program, batch_size=batch_size, device=device, num_threads=num_threads, depth=depth
            )
        except Exception as error:  # a user's own `build` may raise anything
            raise PipelineError(
                f"no DALI graph could be made of the transforms: {_brief(error)}"
            ) from error
        self._depth = depth
        self._started = False
        self._jobs: deque[Job | Failed] = deque()
        # What DALI was given to do, in order, and whether anyone wants the outcome (see _start).
        self._runs: deque[tuple[Job, bool]] = deque()

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
        self._pipeline.feed_input(ENCODED, job.encoded)
        for name, values in job.plan.params.items():
            self._pipeline.feed_input(name, values)
        self._runs.append((job, wanted))

    def _start(self) -> None:
        # The first schedule_run() starts `depth` runs at once, so each must have been fed.
        while len(self._runs) < self._depth:
            self._feed(self._runs[-1][0], wanted=False)
        self._pipeline.schedule_run()
        self._started = True

    def collect(self) -> tuple[BatchPlan, Any]:
        """Wait for the job submitted first, and take it out.

        Returns:
            Its plan, and DALI's dense tensor of its pictures, which stays valid while it is held.

        Raises:
            DecodeError: a picture could not be read or decoded; the next job is not affected.
            Exception: what else kept the batch from being a job.
            PipelineError: DALI failed otherwise.
        """
        job = self._jobs.popleft()
        if isinstance(job, Failed):
            raise job.error
        if not self._started:
            self._start()
        while not self._runs[0][1]:
            self._run_out()
        self._runs.popleft()
        try:
            pictures, shapes = self._pipeline.share_outputs()
            found = np.asarray(shapes.as_tensor())[:, :2]
        except Exception as error:
            self._pipeline.release_outputs()
            raise self._explain(job, error) from None
        self._pipeline.release_outputs()
        if not np.array_equal(found, job.plan.sizes):
            keys, paths = job.plan.record_keys, self._paths(job)
            raise _first_of(diagnose.mismatches(found, job.plan.sizes, keys, paths))
        return job.plan, pictures.as_tensor()

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

    def _paths(self, job: Job) -> list[str]:
        return [self._path(int(key)) for key in job.plan.record_keys]

    def _explain(self, job: Job, error: Exception) -> Exception:
        keys, paths = job.plan.record_keys, self._paths(job)
        errors = diagnose.blame(job.contents, job.plan.sizes, keys, paths)
        if errors:
            return _first_of(errors)
        said = _brief(error)
        if "bad_alloc" in str(error) or "out of memory" in str(error).lower():
            said = f"out of memory; take a smaller batch_size, size or prefetch ({said})"
        return PipelineError(
            f"DALI failed on batch {job.plan.step}, though each of its pictures can be decoded "
            f"alone: {said}"
        )


def _brief(error: Exception) -> str:
    """What DALI says on one line, without the places in its own source that follow."""
    return " ".join(str(error).partition("Stacktrace")[0].split())


def _words(error: OSError) -> str:
    return error.strerror or str(error)


def _first_of(errors: Sequence[DecodeError]) -> DecodeError:
    first = errors[0]
    if len(errors) > 1:
        first.add_note(f"{len(errors) - 1} more pictures of this batch are bad")
    return first
