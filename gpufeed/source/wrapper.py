"""What wrappers of a source share: it is read otherwise, and all else is passed on."""

from __future__ import annotations

import abc
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt

from gpufeed.source.base import Encoded, Source, open_image

__all__ = ["GivenUp", "Wrapper"]


class GivenUp(BaseException):
    """Nobody wants what was being read any more. No `Exception`, since no image has failed."""


class Wrapper(abc.ABC):
    """Reads another source in a way of its own, on threads that are kept until `close`.

    The threads are kept since malloc may give a new thread a heap of its own, and these would grow
    one after the other.

    Args:
        source: what is read.
    """

    def __init__(self, source: Source) -> None:
        self.source = source

    @abc.abstractmethod
    def read(self, keys: npt.NDArray[np.int64]) -> list[Encoded | OSError]:
        """Read images: see `Source`.

        Raises:
            GivenUp: `give_up` was called meanwhile.
        """

    def name(self, key: int) -> str:
        """Return an image's name: see `Source`."""
        return self.source.name(key)

    def open(self, key: int) -> BinaryIO:
        """Open an image: see `Source`."""
        return open_image(self.source, key)

    def give_up(self) -> None:  # noqa: B027 - most have nobody to tell
        """Have those who wait in `read` wait no longer, where that can be done."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the threads."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()
