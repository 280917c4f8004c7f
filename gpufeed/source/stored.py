"""The base class of sources whose images gpufeed itself reads from storage."""

from __future__ import annotations

import abc
import copy
from pathlib import Path
from typing import BinaryIO, Protocol, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed.source.base import Source

__all__ = ["MAX_BYTES", "Limits", "StoredSource"]

Int64 = npt.NDArray[np.int64]

MAX_BYTES = 1 << 31


class Limits(Protocol):
    """Looks up limits: an array of them, or what computes those of some keys."""

    def __getitem__(self, keys: Int64) -> Int64:
        """Return the most bytes of each of some keys."""


class StoredSource(Source, abc.ABC):
    """Encoded images in storage, each with a limit of its bytes.

    Args:
        count: the number of images.
    """

    _max_bytes = MAX_BYTES

    def __init__(self, count: int) -> None:
        # Limits that limit nothing, and take no memory.
        self._limits: Limits = np.broadcast_to(np.int64(np.iinfo(np.int64).max), count)

    @abc.abstractmethod
    def __len__(self) -> int: ...

    def take(self, keys: Int64) -> Self:
        """Return a source of the images of `keys`, in their order, repeats included."""
        taken = copy.copy(self)
        taken._limits = self._limits[keys]
        return taken

    def limited(self, limits: Limits) -> Self:
        """Return a source of the same images with a limit for each."""
        limited = copy.copy(self)
        limited._limits = limits
        return limited

    def most_bytes(self, keys: Int64) -> list[int]:
        """Return the most bytes that the images of keys may have."""
        most: list[int] = np.minimum(self._limits[keys], self._max_bytes).tolist()
        return most

    @abc.abstractmethod
    def open(self, key: int) -> BinaryIO:
        """Open an image: see `Source`."""

    @abc.abstractmethod
    def places(self) -> tuple[Path | str, pl.Series] | None:
        """Return the folder of the images or its URL, and the place of each in it: String, (n,).

        None if nothing tells that an image changes.
        """

    @abc.abstractmethod
    def stamp(self, key: int) -> tuple[int, int]:
        """Return an image's number of bytes, and a number that changes when its file does.

        Raises:
            OSError: there is no such file.
        """

    def open_stamped(self, key: int) -> tuple[BinaryIO, tuple[int, int] | None]:
        """Open an image, and return the stamp that it had before or has; None if it has none.

        Raises:
            OSError: it cannot be opened.
        """
        stamp = self.stamp(key)
        return self.open(key), stamp
