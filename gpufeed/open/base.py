"""What opens images: encoded bytes and a window in, pixels out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from gpufeed.errors import DecodeError, PipelineError

if TYPE_CHECKING:
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.plan.stages import Stages
    from gpufeed.source.base import Encoded

__all__ = ["Name", "Opened", "Opener", "OpenerKind", "Pixels", "bare", "finished", "out_of_memory"]

OpenerKind = Literal["auto", "threads", "graph"]
Pixels = npt.NDArray[np.uint8]
Name = Callable[[int], str]
"""From a record key to what errors call its image."""


@dataclass(frozen=True)
class Opened:
    """A planned batch whose images are open; or some of whose images are bad.

    It must live until the graph has run it: DALI reads `feeds` in place.

    Attributes:
        plan: the batch.
        encoded: for each record its encoded image, or why there is none.
        feeds: what the graph is fed, by the names of its inputs.
        errors: by their places in the batch, why images are bad; with any there is nothing to feed.
        views: for each view its images in host memory; () where none are opened there.
        ready: the places of those in `views` that are open.
    """

    plan: BatchPlan
    encoded: Sequence[Encoded | DecodeError]
    feeds: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[int, DecodeError] = field(default_factory=dict)
    views: Sequence[Sequence[Pixels]] = ()
    ready: frozenset[int] = frozenset()


class Opener(Protocol):
    """One way to open images: on the host before the graph, in the graph, or partly in each.

    Which opener takes a record depends on the manifest and the record alone, never on its batch.
    """

    def build(self, stages: Stages) -> list[Any]:
        """Add to the current DALI graph what it does there.

        Returns:
            For each view a `DataNode` of uint8 HWC images, to which `stages.rest` is left to do.
        """
        ...

    def open(
        self,
        plan: BatchPlan,
        encoded: Sequence[Encoded | DecodeError],
        before: Opened | None = None,
    ) -> Future[Opened]:
        """Begin to open a batch, after those begun before; for any thread.

        Letting go of the future ends the work.

        Args:
            plan: the batch.
            encoded: for each record its encoded image, or why there is none.
            before: the same batch when some of it was bad; what is `ready` of it is taken over.
        """
        ...

    def blame(self, opened: Opened) -> dict[int, DecodeError]:
        """Return the errors of those images, by place, over which the graph failed."""
        ...

    def close(self) -> None:
        """End its threads."""
        ...


def bare(error: DecodeError) -> DecodeError:
    """Drop where an error was raised: its frames would keep whole batches alive."""
    error.__context__ = None
    return error.with_traceback(None)


def finished(opened: Opened) -> Future[Opened]:
    """Return a future that has come already."""
    future: Future[Opened] = Future()
    future.set_result(opened)
    return future


def out_of_memory(said: str) -> PipelineError:
    """Return the error for memory that was refused; `said` is what the refusing library says."""
    return PipelineError(f"out of memory; take a smaller batch_size, size or prefetch ({said})")
