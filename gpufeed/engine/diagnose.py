"""Finds out which pictures of a failed batch are to blame, since DALI's message seldom says."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from nvidia import nvimgcodec
from PIL import Image

from gpufeed.errors import DecodeError, SizeMismatchError
from gpufeed.records.headers import picture_size

__all__ = ["blame", "mismatches"]

_NO_DEVICE = -99999
"""nvImageCodec's NVIMGCODEC_DEVICE_CPU_ONLY, which its Python package does not name."""


def mismatches(
    found: npt.NDArray[np.int64],
    expected: npt.NDArray[np.int64],
    record_keys: npt.NDArray[np.int64],
    paths: Sequence[str],
) -> list[DecodeError]:
    """Return an error for each picture that is not of the size its manifest gives.

    Args:
        found: int64 (n, 2), height and width of the pictures.
        expected: int64 (n, 2), those of the manifest.
        record_keys: int64 (n,).
        paths: n files.
    """
    return [
        SizeMismatchError(
            int(record_keys[place]),
            paths[place],
            f"the picture is {found[place, 1]} x {found[place, 0]} (width x height), the manifest "
            f"says {expected[place, 1]} x {expected[place, 0]}; read the sizes anew, "
            'with sizes="headers" for NABirds',
        )
        for place in np.flatnonzero((found != expected).any(axis=1)).tolist()
    ]


def blame(
    encoded: Sequence[bytes],
    expected: npt.NDArray[np.int64],
    record_keys: npt.NDArray[np.int64],
    paths: Sequence[str],
) -> list[DecodeError]:
    """Return an error for each picture that can not be decoded, or is not of its size.

    Args:
        encoded: n encoded pictures.
        expected: int64 (n, 2), height and width that the manifest gives.
        record_keys: int64 (n,).
        paths: n files.
    """
    decoded = nvimgcodec.Decoder(
        device_id=_NO_DEVICE,
        backends=[nvimgcodec.Backend(nvimgcodec.BackendKind.CPU_ONLY)],
        max_num_cpu_threads=1,
    ).decode
    errors: list[DecodeError] = []
    for place, content in enumerate(encoded):
        key, path = int(record_keys[place]), paths[place]
        try:
            width, height = picture_size(content)
        except (OSError, ValueError) as error:
            errors.append(DecodeError(key, path, f"not a picture that can be read: {error}"))
            continue
        size = np.array([[height, width]])
        wrong = mismatches(size, expected[place, None], record_keys[place, None], [path])
        if wrong:
            errors += wrong
        elif decoded(content) is None:
            errors.append(DecodeError(key, path, _second_opinion(content)))
    return errors


def _second_opinion(content: bytes) -> str:
    """Say what Pillow finds wrong with a picture that nvImageCodec refuses."""
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(content)) as image:
            image.load()
            kind = f"{image.format} {image.mode}"
    except Exception as error:
        return f"the picture is damaged: {error}"
    return f"nvImageCodec can not decode this kind of picture ({kind})"
