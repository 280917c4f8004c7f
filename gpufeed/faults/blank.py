"""Blank images, for records that have none which could be decoded."""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image

__all__ = ["blank_image", "blank_sizes"]

_LONGEST = 65_000
"""Pixels of the longest side: decoders refuse longer ones."""
_MOST_PIXELS = 1 << 24
"""More are those of no photo but of a header that lies, and would take memory and time."""


def blank_sizes(sizes: npt.NDArray[np.int64], max_pixels: int) -> npt.NDArray[np.int64]:
    """Return the sizes of the blank images that stand for images of some sizes.

    They are the same, but for those that are larger than images may be, or than photos are.

    Args:
        sizes: int64 (n, 2), height and width.
        max_pixels: the most of an image.
    """
    sides = np.minimum(sizes, _LONGEST)
    most = min(max_pixels, _MOST_PIXELS)
    shrunk = np.sqrt(np.maximum(sides.prod(axis=1) / most, 1.0))
    return np.asarray(np.maximum((sides / shrunk[:, None]).astype(np.int64), 1))


@lru_cache(maxsize=64)
def blank_image(height: int, width: int) -> bytes:
    """Return a black image, encoded: a gray PNG, which decoders give as RGB."""
    buffer = io.BytesIO()
    Image.new("L", (width, height)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
