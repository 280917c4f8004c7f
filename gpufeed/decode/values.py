"""Decodes images of one channel without changing their values: masks and depth maps."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from PIL import Image, UnidentifiedImageError

from gpufeed.decode.headers import check_scans, image_header
from gpufeed.source.base import Content, Values

__all__ = ["decode_values"]

_FORMATS = ("BMP", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_ONE_CHANNEL = ("1", "L", "P", "I", "I;16", "I;16B", "F")
"""Pillow's modes of one channel; "P" are the indices of a palette."""
_UPRIGHT: dict[int, Callable[[Values], Values]] = {
    1: lambda values: values,
    2: np.fliplr,
    3: lambda values: np.rot90(values, 2),
    4: np.flipud,
    5: np.transpose,
    6: lambda values: np.rot90(values, -1),
    7: lambda values: np.rot90(values, 2).T,
    8: np.rot90,
}
"""What turns an image upright, by its EXIF orientation."""


def decode_values(content: Content, size: tuple[int, int]) -> Values:
    """Return the values of an image of one channel, turned by its EXIF orientation.

    They are those of `numpy.asarray(PIL.Image.open(file))`: the indices of a palette, and 0 and 1
    for 1 bit per pixel.

    Args:
        content: the encoded image; or its pixels, whose three channels must be equal; or its
            values, numbers or booleans, which are returned as they are.
        size: (height, width) that the image must have.

    Returns:
        Integers or floating-point numbers, (height, width), native-endian.

    Raises:
        ValueError: the image has another size or several channels, or cannot be decoded.
    """
    if isinstance(content, np.ndarray):
        _check_size(content.shape[0], content.shape[1], size)
        if content.ndim == 2:
            return _plain(content)
        grey: Values = content[:, :, 0]
        if (content != grey[..., None]).any():
            raise ValueError("its three channels differ; it must be grey")
        return grey
    try:
        header = image_header(content, any_depth=True)
        check_scans(content, header)
    except (OSError, ValueError) as error:
        raise ValueError(f"not a readable image: {error}") from None
    _check_size(header.height, header.width, size)
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            # A PNG may have a second header, which Pillow follows. A TIFF may not be turned yet.
            if sorted(image.size) != sorted(size):
                _check_size(image.height, image.width, size)
            if image.mode not in _ONE_CHANNEL:
                raise ValueError(
                    f"it has the channels {image.mode}, and must have one; convert it to a "
                    "grey or palette image"
                )
            values: Values = np.asarray(image)
            turned = image.format == "TIFF"  # Pillow turns these itself
    except UnidentifiedImageError:
        raise ValueError("Pillow cannot decode this image") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ValueError("it is too large for Pillow") from None
    except (MemoryError, ValueError):
        raise
    except Exception as error:  # Pillow raises any error of its readers
        raise ValueError(f"it is damaged: {error}") from None
    return _plain(values if turned else _UPRIGHT[header.orientation](values))


def _plain(values: Values) -> Values:
    """Return values as native numbers, booleans as 0 and 1."""
    if values.dtype == np.bool_:
        return (values.view(np.uint8) > 0).view(np.uint8)  # Pillow's True is 255
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _check_size(height: int, width: int, size: tuple[int, int]) -> None:
    if (height, width) != size:
        raise ValueError(
            f"it is {width} x {height} (width x height), but its image {size[1]} x {size[0]}"
        )
