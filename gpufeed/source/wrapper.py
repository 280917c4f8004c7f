"""The base class of wrappers, which change how a source is read."""

from __future__ import annotations

import abc
import copy
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt

from gpufeed.source.base import Content, Source, open_image

__all__ = ["ReadCancelled", "Wrapper"]


class ReadCancelled(BaseException):
    """A read was cancelled. Not an `Exception`, since no image has failed."""


class Wrapper(abc.ABC):
    """Reads another source on threads that live until `close`; passes everything else on.

    The threads are kept because malloc may give each new thread a heap of its own, so that starting
    threads again and again would use ever more memory.

    Args:
        source: the source to read.

    Attributes:
        batches: how many batches it should read at a time: one call of `read` for each.
    """

    batches = 1

    def __init__(self, source: Source) -> None:
        self.source = source
        self._owns_threads = True

    @abc.abstractmethod
    def read(self, keys: npt.NDArray[np.int64]) -> list[Content | OSError]:
        """Read images: see `Source`.

        Raises:
            ReadCancelled: `cancel` was called during the read.
        """

    def name(self, key: int) -> str:
        """Return an image's name: see `Source`."""
        return self.source.name(key)

    def open(self, key: int) -> BinaryIO:
        """Open an image: see `Source`."""
        return open_image(self.source, key)

    def share(self) -> Self:
        """Return a reader of the same source with the same threads, which `close` leaves alone."""
        shared = copy.copy(self)
        shared._owns_threads = False
        return shared

    def cancel(self) -> None:  # noqa: B027 - not every wrapper can cancel a read
        """Make pending calls of `read` return at once, if the wrapper can."""

    @abc.abstractmethod
    def close(self) -> None:
        """Stop the threads."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
