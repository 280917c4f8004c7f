"""Random numbers for the synthetic set: addressed by name, and the same with every numpy.

numpy promises the raw words of a bit generator for good, but not what `Generator`'s methods make
of them; so only the raw words are used here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Draws", "Stream"]

T = TypeVar("T")


class Stream(IntEnum):
    """What the numbers are for; no two streams of one seed overlap. Members are only appended."""

    IDS = 0
    CLASSES = 1
    SPLIT = 2
    SIZES = 3
    BOXES = 4
    PHOTOGRAPHERS = 5
    SPECIES_SHAPE = 6
    CLASS_LOOK = 7
    PICTURE = 8
    TEXTURE = 9


class Draws:
    """The stream of random numbers that belongs to (seed, stream, number)."""

    def __init__(self, seed: int, stream: Stream, number: int = 0) -> None:
        # The stream goes into the counter's highest word, which no amount of drawing reaches.
        self._bits = np.random.Philox(
            key=np.array([seed, number], dtype=np.uint64),
            counter=np.array([0, 0, 0, stream], dtype=np.uint64),
        )
        self._spare: list[float] = []

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """`count` random 64-bit words."""
        return self._bits.random_raw(count)

    def uniforms(self, count: int) -> npt.NDArray[np.float64]:
        """`count` numbers in [0, 1)."""
        return (self.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def bells(self, count: int) -> npt.NDArray[np.float64]:
        """`count` bell-shaped numbers: mean 0, standard deviation 1, never beyond 3.5."""
        # A sum of four uniforms, since exp and log differ between machines in the last bit.
        quads = self.uniforms(4 * count).reshape(count, 4)
        total = quads[:, 0] + quads[:, 1] + quads[:, 2] + quads[:, 3]
        bells: npt.NDArray[np.float64] = (total - 2.0) * 3.0**0.5
        return bells

    def order(self, count: int) -> npt.NDArray[np.int64]:
        """A random permutation of `range(count)`."""
        return np.argsort(self.words(count), kind="stable")

    def between(self, low: float, high: float) -> float:
        """One number in [low, high)."""
        if not self._spare:  # taken in one go, which is far faster than one by one
            self._spare = self.uniforms(64).tolist()
        return low + (high - low) * self._spare.pop()

    def below(self, stop: int) -> int:
        """One of `range(stop)`."""
        return int(self.between(0.0, stop))

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]
