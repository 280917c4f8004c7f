"""A planned batch with its pictures, on the way to DALI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nvidia.dali import tensors

from gpufeed.errors import DecodeError, PipelineError

if TYPE_CHECKING:
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.source.base import Encoded

__all__ = ["BadPictures", "Failed", "Job", "bare", "finished", "out_of_memory", "wrap"]


class BadPictures(Exception):  # noqa: N818 - what it carries are the errors
    """Some pictures of a batch could not be read or decoded.

    Attributes:
        errors: of each, by its place in the batch.
        kept: what `Engine.prepare` can take over of the others when the batch is made again.
    """

    def __init__(self, errors: Mapping[int, DecodeError], kept: Any) -> None:
        super().__init__(errors)
        self.errors = dict(errors)
        self.kept = kept


def bare(error: DecodeError) -> DecodeError:
    """Let go of where an error was raised: its frames would keep whole batches alive."""
    error.__context__ = None
    return error.with_traceback(None)


@dataclass(frozen=True)
class Job:
    """A planned batch, ready to be fed.

    It must live until it is collected: DALI reads `pictures` and the plan's arrays in place.

    Attributes:
        plan: the batch.
        pictures: DALI `TensorList`s of what the graph begins with: the encoded pictures, or those
            of each view's opening.
        contents: the encoded pictures, where the graph decodes them.
    """

    plan: BatchPlan
    pictures: Sequence[Any]
    contents: Sequence[Encoded] = ()


@dataclass(frozen=True)
class Failed:
    """What stands for batch `step` where it came to no job; `error` is raised in its turn."""

    step: int
    error: Exception

    def raised(self) -> Exception:
        """The error to raise: one that nothing else holds.

        It will hold the frames that it passes, and these hold whole batches.
        """
        bad = self.error
        return BadPictures(bad.errors, bad.kept) if isinstance(bad, BadPictures) else bad


def wrap(buffers: Sequence[Any], layout: str) -> Any:
    """Return a DALI `TensorList` that shares the memory of some buffers."""
    # As a TensorList, since feed_input() takes three times as long for a list of arrays.
    wrapped = [tensors.TensorCPU(buffer, layout) for buffer in buffers]
    return tensors.TensorListCPU(wrapped, layout, contiguous=False)


def finished(outcome: Job | Failed) -> Future[Job | Failed]:
    """Return a future that has come already."""
    future: Future[Job | Failed] = Future()
    future.set_result(outcome)
    return future


def out_of_memory(said: str) -> PipelineError:
    """Return the error for memory that was refused; `said` is what the refusing library says."""
    return PipelineError(f"out of memory; take a smaller batch_size, size or prefetch ({said})")
