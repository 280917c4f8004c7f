"""Blank pictures, for records that have none which could be decoded."""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image

__all__ = ["blank_picture", "blank_sizes"]

_MOST_PIXELS = 1 << 22
"""Blank pictures of larger records are drawn smaller, since they would be decoded like others."""


def blank_sizes(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the sizes of the blank pictures that stand for pictures of some sizes.

    Args:
        sizes: int64 (n, 2), height and width.
    """
    shrunk = np.sqrt(np.maximum(sizes.prod(axis=1, dtype=np.float64) / _MOST_PIXELS, 1.0))
    return np.asarray(np.maximum((sizes / shrunk[:, None]).astype(np.int64), 1))


@lru_cache(maxsize=64)
def blank_picture(height: int, width: int) -> bytes:
    """Return a black picture, encoded."""
    buffer = io.BytesIO()
    # PNG, since sides of JPEGs end at 65,535.
    Image.new("RGB", (width, height)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
