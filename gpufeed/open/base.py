"""The interface of openers, which turn images, mostly encoded, into pixels of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt

from gpufeed.errors import DecodeError, PipelineError
from gpufeed.source.base import Content, Encoded, Pixels

if TYPE_CHECKING:
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.plan.stages import Stages

__all__ = [
    "KEPT",
    "Opened",
    "Opener",
    "Pixels",
    "finished",
    "out_of_memory",
    "without_traceback",
]

KEPT: Encoded = bytearray()
"""Stands for an encoded image that is not needed, since its pixels are there already."""


@dataclass(frozen=True)
class Opened:
    """A planned batch after opening: its images, or the errors of those that are bad.

    Keep it alive until the graph has run it, since DALI reads `feeds` in place.

    Attributes:
        plan: the batch.
        encoded: for each record its image, or the error of reading it; without errors `KEPT`
            for images that are `ready`, and empty if all are.
        feeds: the graph's inputs by name; empty if there are errors.
        errors: the errors of bad images, by their places in the batch.
        views: for each view its images in host memory; () if the graph decodes all.
        ready: the places whose images in `views` and `fields` are there.
        further: for each record its further images, encoded, until they are `ready`.
        fields: further images by name, an array for each view.
    """

    plan: BatchPlan
    encoded: Sequence[Content | DecodeError]
    feeds: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[int, DecodeError] = field(default_factory=dict)
    views: Sequence[Sequence[Pixels]] = ()
    ready: frozenset[int] = frozenset()
    further: Sequence[Sequence[Content]] = ()
    fields: Mapping[str, list[npt.NDArray[Any]]] = field(default_factory=dict)


class Opener(Protocol):
    """A way to open images: on the host before the graph, in the graph, or partly in each.

    Which decoder takes a record depends on the record alone, never on its batch.
    """

    def build(self, stages: Stages) -> list[Any]:
        """Add the opener's part to the current DALI graph.

        Returns:
            For each view a `DataNode` of uint8 HWC images, the input of `stages.rest`.
        """
        ...

    def open(
        self,
        plan: BatchPlan,
        encoded: Sequence[Content | DecodeError],
        before: Opened | None = None,
        further: Sequence[Sequence[Content]] = (),
    ) -> Future[Opened]:
        """Start to open a batch, after those started before; callable from any thread.

        Dropping the future cancels the work.

        Args:
            plan: the batch.
            encoded: for each record its image, `KEPT`, or the error of reading it.
            before: the result of opening the same batch when some of its images were bad; the
                images that are `ready` are reused.
            further: for each record its further images, if any are asked for; none for blank ones.
        """
        ...

    def blame(self, opened: Opened, message: str) -> dict[int, DecodeError]:
        """Return the errors of the images on which the graph failed, by place.

        Args:
            opened: the batch.
            message: DALI's message.
        """
        ...

    def close(self) -> None:
        """End the threads of the opener."""
        ...


def without_traceback(error: DecodeError) -> DecodeError:
    """Drop an error's context and traceback, whose frames would keep whole batches alive."""
    error.__context__ = None
    return error.with_traceback(None)


def finished(opened: Opened) -> Future[Opened]:
    """Return a future that already has its result."""
    future: Future[Opened] = Future()
    future.set_result(opened)
    return future


def out_of_memory(message: str) -> PipelineError:
    """Return the error for a failed allocation, with the message of the library that failed."""
    return PipelineError(
        "out of memory; use a smaller batch_size, size or prefetch, smaller images (gpufeed "
        f'prepare), or on a GPU opener="threads" ({message})'
    )
