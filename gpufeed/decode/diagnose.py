"""The errors of bad images: those that cannot be read, are refused, or cannot be decoded."""

from __future__ import annotations

import io
from collections.abc import Callable

from PIL import Image

from gpufeed.decode.headers import (
    DepthError,
    ImageHeader,
    check_depth,
    check_scans,
    image_header,
    max_file_bytes,
)
from gpufeed.errors import DecodeError, SizeMismatchError
from gpufeed.source.base import Encoded

__all__ = [
    "MAX_PIXELS",
    "Name",
    "check_header",
    "check_pillow_size",
    "check_size",
    "too_large",
    "undecodable",
    "unreadable",
]

MAX_PIXELS = 1 << 27
"""Pixels of the largest image that is decoded.

Such an image takes 1.2 GB while it is decoded and resized; `Budget` bounds how many are at a time.
The limit is a constant, not a share of the machine's memory, so that a batch is the same on every
machine.
"""

Name = Callable[[int], str]
"""From a record key to the name of its image in errors."""
Size = tuple[int, int]


def unreadable(error: OSError, record_key: int, name: Name) -> DecodeError:
    """Return the error for an image that its source cannot read."""
    return DecodeError(record_key, name(record_key), f"cannot be read: {error.strerror or error}")


def too_large(size: Size, max_pixels: int, record_key: int, name: Name) -> DecodeError:
    """Return the error for an image whose (height, width) has more than `max_pixels`."""
    height, width = size
    return DecodeError(
        record_key,
        name(record_key),
        f"the image has {width} x {height} = {width * height:,} pixels, more than max_pixels "
        f"({max_pixels:,}); raise it if there is enough memory",
    )


def check_header(
    content: Encoded,
    expected: Size,
    record_key: int,
    name: Name,
    *,
    reduce_depth: bool = False,
) -> ImageHeader:
    """Check that an image's header is readable, and gives the size in the manifest and a depth.

    Args:
        content: the encoded image.
        expected: (height, width) in the manifest.
        record_key: the image's record.
        name: from a record key to the name of its image in errors.
        reduce_depth: whether the image may have 16 bits per channel.

    Raises:
        DecodeError: the header cannot be read, the image is too deep, or the file is far too long
            for its size.
        SizeMismatchError: the image has a different size.
    """
    try:
        header = image_header(content)
        check_depth(header, reduce_depth=reduce_depth)
        check_scans(content, header)
    except DepthError as error:
        raise DecodeError(record_key, name(record_key), str(error)) from None
    except (OSError, ValueError) as error:
        raise DecodeError(record_key, name(record_key), f"not a readable image: {error}") from None
    width, height = header[:2]
    if len(content) > (limit := max_file_bytes(height * width)):
        reason = f"the file is {len(content):,} bytes long; the limit for its size is {limit:,}"
        raise DecodeError(record_key, name(record_key), reason)
    check_size((height, width), expected, record_key, name)
    return header


def check_size(size: Size, expected: Size, record_key: int, name: Name) -> None:
    """Raise `SizeMismatchError` if an image has another (height, width) than in the manifest."""
    if size != expected:
        raise SizeMismatchError(
            record_key,
            name(record_key),
            f"the image is {size[1]} x {size[0]} (width x height), but the manifest gives "
            f"{expected[1]} x {expected[0]}; read the sizes again, with "
            'sizes="headers" for NABirds',
        )


def check_pillow_size(image: Image.Image, size: Size) -> None:
    """Raise `ValueError` if Pillow would load another size than the header's (height, width).

    A JPEG or PNG may have a second header. Pillow follows it, and would allocate memory for it.
    """
    if sorted(image.size) != sorted(size):  # a TIFF may not be turned yet
        raise ValueError(
            f"a header gives the size {size[1]} x {size[0]} (width x height), and another "
            f"{image.width} x {image.height}"
        )


def undecodable(content: Encoded, record_key: int, name: Name) -> DecodeError:
    """Return the error for an image that nvImageCodec rejects, with Pillow's reason."""
    try:
        width, height = image_header(content)[:2]
        with Image.open(io.BytesIO(content)) as image:
            check_pillow_size(image, (height, width))
            image.load()
            kind = f"{image.format} {image.mode}"
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        reason = "nvImageCodec cannot decode this image, which is too large for Pillow"
    except Exception as error:
        reason = f"the image is damaged: {error}"
    else:
        reason = f"nvImageCodec cannot decode this image, which Pillow reads as {kind}"
    return DecodeError(record_key, name(record_key), reason)
