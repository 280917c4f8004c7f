"""Pixels that are not encoded, as byte ranges of files."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gpufeed.source.base import Pixels
from gpufeed.source.ranges import RangeSource

__all__ = ["RawSource"]

Int64 = npt.NDArray[np.int64]


class RawSource(RangeSource):
    """Byte ranges of files, each the pixels of an image, row by row in RGB.

    Args:
        ranges: the arguments of `RangeSource`; each range has 3 x height x width bytes.
        sizes: int (n, 2), height and width of each image.
    """

    start = None  # reading on threads, which make arrays of what they read

    def __init__(self, *ranges: Any, sizes: npt.NDArray[np.integer]) -> None:
        super().__init__(*ranges)
        self._sizes = sizes

    def read(self, keys: Int64) -> list[Pixels | OSError]:  # type: ignore[override]
        """Read images: see `Source`."""
        return [
            content
            if isinstance(content, OSError)
            else np.frombuffer(content, np.uint8).reshape(*size, 3)
            for content, size in zip(super().read(keys), self._sizes[keys].tolist(), strict=True)
        ]

    def take(self, keys: Int64) -> Self:
        """Return a source of the images of `keys`, in their order, repeats included."""
        taken = super().take(keys)
        taken._sizes = self._sizes[keys]
        return taken
