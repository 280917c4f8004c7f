"""Reads a source that makes its own requests: those of a batch at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gpufeed.source.base import Content, Source, check_read
from gpufeed.source.remote.loop import result
from gpufeed.source.wrapper import Wrapper

__all__ = ["Concurrent"]


class Concurrent(Wrapper):
    """Reads all images of a call at the same time, and waits for them.

    Args:
        source: the source to read.
        start: its method `start`.
        seconds: how long each image may take; None for no limit.
    """

    # So that requests are under way while the last images of a batch are waited for.
    batches = 4

    def __init__(
        self,
        source: Source,
        start: Callable[[npt.NDArray[np.int64], float | None], Future[Any]],
        seconds: float | None,
    ) -> None:
        super().__init__(source)
        self._start = start
        self._seconds = seconds
        self._pending: set[Future[Any]] = set()

    def read(self, keys: npt.NDArray[np.int64]) -> list[Content | OSError]:
        """Read images: see `Wrapper`."""

        def read() -> Sequence[Content | OSError]:
            future = self._start(keys, self._seconds)
            self._pending.add(future)
            try:
                images: Sequence[Content | OSError] = result(future)
                return images
            finally:
                self._pending.discard(future)

        return check_read(self.source, read, keys)

    def cancel(self) -> None:
        """Make pending calls of `read` return at once."""
        for future in list(self._pending):
            future.cancel()

    def close(self) -> None:
        """Cancel what is pending; a source that has connections closes them."""
        self.cancel()
        if self._owns_threads and callable(close := getattr(self.source, "close", None)):
            close()

    def share(self) -> Self:
        """Return a reader of the same source, whose reads are cancelled apart: see `Wrapper`."""
        shared = super().share()
        shared._pending = set()
        return shared
