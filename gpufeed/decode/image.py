"""Decodes one whole image of a source, by the rules of a run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpufeed.decode.accept import Acceptor
from gpufeed.decode.decoders import NvImageCodec
from gpufeed.decode.diagnose import too_large, undecodable, unreadable
from gpufeed.source.base import Source, read_images

__all__ = ["decode_image"]


def decode_image(
    source: Source, key: int, size: tuple[int, int], *, reduce_depth: bool, max_pixels: int
) -> npt.NDArray[np.uint8]:
    """Return an image as RGB, uint8 (height, width, 3), turned by its EXIF orientation.

    Args:
        source: the images.
        key: the image's key in the source.
        size: (height, width) that the image must have.
        reduce_depth: as for `Manifest`.
        max_pixels: as for `Loader`.

    Raises:
        DecodeError: the image cannot be read or decoded, or is too large.
        SizeMismatchError: the image has another size.
        SourceError: the source violates its protocol.
    """
    if size[0] * size[1] > max_pixels:
        raise too_large(size, max_pixels, key, source.name)
    (content,) = read_images(source, np.array([key], dtype=np.int64))
    if isinstance(content, OSError):
        raise unreadable(content, key, source.name)
    accepted = Acceptor(source.name, reduce_depth=reduce_depth).accept(content, size, key)
    if isinstance(accepted, np.ndarray):
        return accepted
    pixels = NvImageCodec().decode(accepted, (0, 0), size)
    if pixels is None:
        raise undecodable(accepted, key, source.name)
    return pixels
