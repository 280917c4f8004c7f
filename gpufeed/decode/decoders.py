"""Decoders, from an encoded image to the pixels of a window, on one thread of the host."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

# Read when nvImageCodec is imported. It would print lines that name no file; gpufeed's errors name
# the record.
os.environ.setdefault("PYNVIMGCODEC_VERBOSITY", "0")
# Read when DALI makes a decoder. Errors are the least that DALI can be told to print.
os.environ.setdefault("DALI_NVIMGCODEC_LOG_LEVEL", "1")

from nvidia import nvimgcodec

from gpufeed.source.base import Encoded

__all__ = ["AllBits", "Decoder", "NvImageCodec", "cpu_decoder"]

_NO_DEVICE = -99999
"""nvImageCodec's NVIMGCODEC_DEVICE_CPU_ONLY, which its Python package does not export."""

_MAX_REUSED_BYTES = 64 << 20
"""The largest image whose memory is reused for the next one."""


_ANY_DEPTH = nvimgcodec.DecodeParams(allow_any_depth=True)


def cpu_decoder() -> nvimgcodec.Decoder:
    """Return a decoder that works in its caller's thread; each thread needs its own."""
    return nvimgcodec.Decoder(
        device_id=_NO_DEVICE,
        backends=[nvimgcodec.Backend(nvimgcodec.BackendKind.CPU_ONLY)],
        max_num_cpu_threads=1,
    )


class Decoder(Protocol):
    """Decodes images one at a time, on the thread that made it.

    gpufeed reads headers itself, so a decoder receives only images of a known size and format:
    JPEG, PNG, WebP, TIFF, BMP and PNM.
    """

    def decode(
        self, content: Encoded, start: tuple[int, int], shape: tuple[int, int]
    ) -> npt.NDArray[np.uint8] | None:
        """Decode a window of an image.

        Args:
            content: the encoded image.
            start: (y, x) of the window's first pixel, after the image's EXIF orientation.
            shape: (height, width) of the window, which lies inside the image.

        Returns:
            uint8 (height, width, 3), RGB, which the next call may overwrite; None if the image
            cannot be decoded.
        """
        ...


class NvImageCodec:
    """The CPU decoder of nvImageCodec, the library inside DALI: see `Decoder`."""

    def __init__(self) -> None:
        self._decoder = cpu_decoder()
        self._image: nvimgcodec.Image | None = None

    def decode(
        self, content: Encoded, start: tuple[int, int], shape: tuple[int, int]
    ) -> npt.NDArray[np.uint8] | None:
        """Decode a window of an image: see `Decoder`."""
        (top, left), (height, width) = start, shape
        window = nvimgcodec.Region(top, left, top + height, left + width)
        try:
            stream = nvimgcodec.CodeStream(content).get_sub_code_stream(0, region=window)
        except RuntimeError:  # an unreadable header
            return None
        if self._image is None:
            image = self._decoder.decode(stream)
        else:
            image = self._decoder.decode(stream, image=self._image)
        if image is None:
            return None
        self._image = image if height * width * 3 <= _MAX_REUSED_BYTES else None
        # Not np.asarray: it reads __array_interface__, which leaks 32 bytes each time.
        pixels: npt.NDArray[np.uint8] = image.cpu().__array__()
        return pixels


class AllBits:
    """Decodes whole images in their own depth, on the thread that made it."""

    def __init__(self) -> None:
        self._decoder = cpu_decoder()

    def decode(self, content: Encoded) -> npt.NDArray[Any] | None:
        """Return an image upright, (height, width, 3), RGB, or None if it cannot be decoded."""
        image = self._decoder.decode(nvimgcodec.CodeStream(content), params=_ANY_DEPTH)
        return None if image is None else image.cpu().__array__()
