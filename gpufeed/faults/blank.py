"""Blank images, for records whose image cannot be decoded."""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image

__all__ = ["blank_image", "blank_sizes"]

_MAX_SIDE = 65_000
"""Pixels of the longest side: decoders reject longer ones."""
_MAX_PIXELS = 1 << 24
"""Pixels of a blank image. A larger size is probably not that of a photo but a false header."""


def blank_sizes(sizes: npt.NDArray[np.int64], max_pixels: int) -> npt.NDArray[np.int64]:
    """Return the sizes of the blank images that replace images of the given sizes.

    They are equal, except that images larger than the limits become smaller.

    Args:
        sizes: int64 (n, 2), height and width.
        max_pixels: the loader's limit on the pixels of an image.
    """
    sides = np.minimum(sizes, _MAX_SIDE)
    limit = min(max_pixels, _MAX_PIXELS)
    factor = np.sqrt(np.maximum(sides.prod(axis=1) / limit, 1.0))
    return np.asarray(np.maximum((sides / factor[:, None]).astype(np.int64), 1))


@lru_cache(maxsize=64)
def blank_image(height: int, width: int) -> bytes:
    """Return an encoded black image: a grayscale PNG, which decoders convert to RGB."""
    buffer = io.BytesIO()
    Image.new("L", (width, height)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
