"""Pixels one after the other, without a header."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from gpufeed.tools.prepare.pack.item import Item

__all__ = ["pack"]


def pack(file: BinaryIO, items: Iterator[Item]) -> list[int]:
    """Write a file of pixels: see `Pack`."""
    starts, end = [], 0
    for item in items:
        starts.append(end)
        end += file.write(item.content)
    return starts
