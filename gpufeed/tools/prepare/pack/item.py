"""What is packed: images, their names and rows; and the interface of what packs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

import polars as pl

__all__ = ["Item", "Pack"]


class Item(NamedTuple):
    """An image to pack.

    Attributes:
        name: of the image, unique in the data set.
        content: the image, encoded or as pixels.
        row: all columns of its record, in a frame of one row.
    """

    name: str
    content: bytes
    row: pl.DataFrame


Pack = Callable[[BinaryIO, Iterator[Item]], list[int]]
"""Writes images to a file, and returns where each begins in it: the first byte or a number."""
