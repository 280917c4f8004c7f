"""A planned batch with its pictures, on the way to DALI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nvidia.dali import tensors

from gpufeed.errors import DecodeError, PipelineError

if TYPE_CHECKING:
    from gpufeed.plan import BatchPlan

__all__ = ["Failed", "Job", "finished", "first_of", "out_of_memory", "unread", "wrap"]


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
    contents: Sequence[bytes] = ()


@dataclass(frozen=True)
class Failed:
    """What stands for batch `step` where it came to no job; `error` is raised in its turn."""

    step: int
    error: Exception


def wrap(buffers: Sequence[Any], layout: str) -> Any:
    """Return a DALI `TensorList` that shares the memory of some buffers."""
    # As a TensorList, since feed_input() takes three times as long for a list of arrays.
    wrapped = [tensors.TensorCPU(buffer, layout) for buffer in buffers]
    return tensors.TensorListCPU(wrapped, layout, contiguous=False)


def unread(
    plan: BatchPlan, contents: Sequence[bytes | OSError], path: Callable[[int], str]
) -> Failed | None:
    """Return what stands for a batch of which some files could not be read, else None.

    Args:
        plan: the batch.
        contents: per record its encoded picture, or the error that reading it met.
        path: from a record key to the name of its file.
    """
    errors = [
        DecodeError(int(key), path(int(key)), f"can not be read: {content.strerror or content}")
        for key, content in zip(plan.record_keys, contents, strict=True)
        if isinstance(content, OSError)
    ]
    return Failed(plan.step, first_of(errors)) if errors else None


def first_of(errors: Sequence[DecodeError]) -> DecodeError:
    """Return the first of a batch's errors, with a note of how many there are beside it."""
    first = errors[0]
    if len(errors) > 1:
        first.add_note(f"{len(errors) - 1} more pictures of this batch are bad")
    return first


def finished(outcome: Job | Failed) -> Future[Job | Failed]:
    """Return a future that has come already."""
    future: Future[Job | Failed] = Future()
    future.set_result(outcome)
    return future


def out_of_memory(said: str) -> PipelineError:
    """Return the error for memory that was refused; `said` is what the refusing library says."""
    return PipelineError(f"out of memory; take a smaller batch_size, size or prefetch ({said})")
