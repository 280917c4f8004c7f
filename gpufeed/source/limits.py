"""The most bytes that the encoded image of each key may have."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Limits", "no_limits"]

Int64 = npt.NDArray[np.int64]


class Limits(Protocol):
    """Looks up limits: an array of them, or what computes those of some keys."""

    def __getitem__(self, keys: Int64) -> Int64:
        """Return the most bytes of each of some keys."""


def no_limits(count: int) -> Int64:
    """Return limits that limit nothing, and take no memory."""
    return np.broadcast_to(np.int64(np.iinfo(np.int64).max), count)
