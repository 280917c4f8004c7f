"""Pixels that are not encoded, as byte ranges of files."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed.source.base import Pixels, Saved
from gpufeed.source.locate import Root
from gpufeed.source.ranges import RangeSource
from gpufeed.source.saved_files import find_files

__all__ = ["RawSource"]

Int64 = npt.NDArray[np.int64]
Ints = npt.NDArray[np.integer]


class RawSource(RangeSource):
    """Byte ranges of files, each the pixels of an image, row by row in RGB.

    Args:
        ranges: the arguments of `RangeSource`; each range has 3 x height x width bytes.
        sizes: the heights and the widths of the images, each int (n,).
    """

    start = None  # reading on threads, which make arrays of what they read

    def __init__(self, *ranges: Any, sizes: tuple[Ints, Ints]) -> None:
        super().__init__(*ranges)
        self._sizes = sizes

    def to_saved(self) -> Saved | None:
        """Return what `from_saved` takes; None if the files are in memory."""
        saved = super().to_saved()
        sizes = dict(zip(("height", "width"), self._sizes, strict=True))
        return saved and Saved(saved.about, saved.columns.with_columns(**sizes))

    @classmethod
    def from_saved(cls, about: dict[str, Any], columns: pl.DataFrame, root: Root | None) -> Self:
        """Return the source that was saved; arguments and errors as for `find_files`."""
        names = ("file", "start", "length", "height", "width")
        *ranges, height, width = (columns[name].to_numpy() for name in names)
        return cls(*find_files(about, root), *ranges, columns["name"], sizes=(height, width))

    def read(self, keys: Int64) -> list[Pixels | OSError]:  # type: ignore[override]
        """Read images: see `Source`."""
        return [
            content
            if isinstance(content, OSError)
            else np.frombuffer(content, np.uint8).reshape(height, width, 3)
            for content, height, width in zip(
                super().read(keys), *(each[keys].tolist() for each in self._sizes), strict=True
            )
        ]

    def take(self, keys: Int64) -> Self:
        """Return a source of the images of `keys`, in their order, repeats included."""
        taken = super().take(keys)
        taken._sizes = self._sizes[0][keys], self._sizes[1][keys]
        return taken
