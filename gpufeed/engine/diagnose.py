"""Says what is wrong with a picture: DALI's message seldom tells which of a batch it means."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

from gpufeed.engine.decode import WindowDecoder
from gpufeed.errors import DecodeError, SizeMismatchError
from gpufeed.records.headers import check_scans, picture_size

__all__ = ["blame", "check_header", "undecodable"]

_QUIET = threading.Lock()
"""Held where warnings are silenced: their filters are the process's, and threads that put them back
in another order than they changed them would leave it silenced for good."""

Size = tuple[int, int]
Path = Callable[[int], str]


def check_header(content: bytes, expected: Size, record_key: int, path: Path) -> None:
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
    if (height, width) != expected:
        raise SizeMismatchError(
            record_key,
            path(record_key),
            f"the picture is {width} x {height} (width x height), the manifest says "
            f"{expected[1]} x {expected[0]}; read the sizes anew, with "
            'sizes="headers" for NABirds',
        )


def undecodable(content: bytes, record_key: int, path: Path) -> DecodeError:
    """Return the error for a picture that nvImageCodec refuses, in Pillow's words."""
    try:
        with (
            _QUIET,
            warnings.catch_warnings(action="ignore"),
            Image.open(io.BytesIO(content)) as image,
        ):
            image.load()
            kind = f"{image.format} {image.mode}"
    except Exception as error:
        reason = f"the picture is damaged: {error}"
    else:
        reason = f"nvImageCodec can not decode this kind of picture ({kind})"
    return DecodeError(record_key, path(record_key), reason)


def blame(
    encoded: Sequence[bytes],
    expected: npt.NDArray[np.int64],
    record_keys: npt.NDArray[np.int64],
    path: Path,
) -> dict[int, DecodeError]:
    """Return the errors of the pictures that can not be decoded, by their places.

    Args:
        encoded: n encoded pictures.
        expected: int64 (n, 2), height and width that the manifest gives.
        record_keys: int64 (n,).
        path: from a record key to the name of its file.
    """
    decoder = WindowDecoder()
    errors: dict[int, DecodeError] = {}
    for place, content in enumerate(encoded):
        key = int(record_keys[place])
        size: Size = tuple(expected[place].tolist())
        if decoder.decode(content, (0, 0), size) is None:
            errors[place] = undecodable(content, key, path)
    return errors
