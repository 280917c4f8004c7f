"""Says what is wrong with a picture: DALI's message seldom tells which of a batch it means."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PIL import Image

from gpufeed.errors import DecodeError, SizeMismatchError
from gpufeed.open.decoders import WindowDecoder
from gpufeed.records.headers import check_scans, most_bytes, picture_size

if TYPE_CHECKING:
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.source.base import Encoded

__all__ = ["blame", "check_header", "undecodable"]

Size = tuple[int, int]
Path = Callable[[int], str]


def check_header(content: Encoded, expected: Size, record_key: int, path: Path) -> None:
    """Raise where a picture's header can not be read or gives another size than its manifest.

    Args:
        content: the encoded picture.
        expected: (height, width) that the manifest gives.
        record_key: its record.
        path: from a record key to the name of its file.

    Raises:
        DecodeError: it is no picture.
        SizeMismatchError: it is of another size.
    """
    try:
        width, height = picture_size(content)
        check_scans(content)
    except (OSError, ValueError) as error:
        raise DecodeError(
            record_key, path(record_key), f"not a picture that can be read: {error}"
        ) from None
    if len(content) > (limit := most_bytes(height * width)):
        reason = f"the file is {len(content):,} bytes long; the limit for its size is {limit:,}"
        raise DecodeError(record_key, path(record_key), reason)
    if (height, width) != expected:
        raise SizeMismatchError(
            record_key,
            path(record_key),
            f"the picture is {width} x {height} (width x height), the manifest says "
            f"{expected[1]} x {expected[0]}; read the sizes anew, with "
            'sizes="headers" for NABirds',
        )


def undecodable(content: Encoded, record_key: int, path: Path) -> DecodeError:
    """Return the error for a picture that nvImageCodec refuses, in Pillow's words."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            image.load()
            kind = f"{image.format} {image.mode}"
    except Image.DecompressionBombError:
        reason = "nvImageCodec can not decode this picture, which is too large for Pillow"
    except Exception as error:
        reason = f"the picture is damaged: {error}"
    else:
        reason = f"nvImageCodec can not decode this picture, which Pillow reads as {kind}"
    return DecodeError(record_key, path(record_key), reason)


def blame(encoded: Sequence[Encoded], plan: BatchPlan, path: Path) -> dict[int, DecodeError]:
    """Return the errors of the pictures whose window can not be decoded, by their places.

    No more than the window is judged, so that it does not depend on the rest of a batch whether a
    damaged picture counts as bad.

    Args:
        encoded: n encoded pictures.
        plan: their batch.
        path: from a record key to the name of its file.
    """
    decoder = WindowDecoder()
    window = plan.stages.window
    starts, shapes = window.start.tolist(), window.shape.tolist()
    errors: dict[int, DecodeError] = {}
    for place, content in enumerate(encoded):
        if decoder.decode(content, tuple(starts[place]), tuple(shapes[place])) is None:
            errors[place] = undecodable(content, int(plan.record_keys[place]), path)
    return errors
