"""Finding the bad images of a batch, which DALI's messages seldom identify."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from PIL import Image

from gpufeed.errors import DecodeError, SizeMismatchError
from gpufeed.open.decoders import NvImageCodec
from gpufeed.records.headers import (
    DepthError,
    ImageHeader,
    check_depth,
    check_scans,
    image_header,
    max_file_bytes,
)

if TYPE_CHECKING:
    from gpufeed.open.base import Name, Opened
    from gpufeed.source.base import Encoded

__all__ = ["check_header", "find_undecodable", "undecodable"]

Size = tuple[int, int]


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
        check_scans(content)
    except DepthError as error:
        raise DecodeError(record_key, name(record_key), str(error)) from None
    except (OSError, ValueError) as error:
        raise DecodeError(record_key, name(record_key), f"not a readable image: {error}") from None
    width, height = header[:2]
    if len(content) > (limit := max_file_bytes(height * width)):
        reason = f"the file is {len(content):,} bytes long; the limit for its size is {limit:,}"
        raise DecodeError(record_key, name(record_key), reason)
    if (height, width) != expected:
        raise SizeMismatchError(
            record_key,
            name(record_key),
            f"the image is {width} x {height} (width x height), but the manifest gives "
            f"{expected[1]} x {expected[0]}; read the sizes again, with "
            'sizes="headers" for NABirds',
        )
    return header


def undecodable(content: Encoded, record_key: int, name: Name) -> DecodeError:
    """Return the error for an image that nvImageCodec rejects, with Pillow's reason."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            image.load()
            kind = f"{image.format} {image.mode}"
    except Image.DecompressionBombError:
        reason = "nvImageCodec cannot decode this image, which is too large for Pillow"
    except Exception as error:
        reason = f"the image is damaged: {error}"
    else:
        reason = f"nvImageCodec cannot decode this image, which Pillow reads as {kind}"
    return DecodeError(record_key, name(record_key), reason)


def find_undecodable(opened: Opened, name: Name) -> dict[int, DecodeError]:
    """Return the errors of the images whose window cannot be decoded, by their places.

    Only the window is decoded, so that a damaged image counts as bad in every batch or in none.
    """
    decoder = NvImageCodec()
    window, keys = opened.plan.stages.window, opened.plan.record_keys.tolist()
    starts, shapes = window.start.tolist(), window.shape.tolist()
    errors: dict[int, DecodeError] = {}
    for place, content in enumerate(opened.encoded):
        if isinstance(content, DecodeError):
            continue
        if decoder.decode(content, tuple(starts[place]), tuple(shapes[place])) is None:
            errors[place] = undecodable(content, keys[place], name)
    return errors
