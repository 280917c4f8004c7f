"""Decoders: from an encoded image to the pixels of a window of it, on one thread of the host."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
import numpy.typing as npt

# Heeded when it is imported. What cannot be decoded is told by errors, with the record; its lines
# on standard error name no file.
os.environ.setdefault("PYNVIMGCODEC_VERBOSITY", "0")

from nvidia import nvimgcodec

from gpufeed.source.base import Encoded

__all__ = ["Decoder", "NvImageCodec", "cpu_decoder"]

_NO_DEVICE = -99999
"""nvImageCodec's NVIMGCODEC_DEVICE_CPU_ONLY, which its Python package does not name."""

_KEPT_BYTES = 64 << 20
"""The largest image whose memory is kept for the next one."""


def cpu_decoder() -> nvimgcodec.Decoder:
    """Return a decoder that works in its caller's thread; make one for each."""
    return nvimgcodec.Decoder(
        device_id=_NO_DEVICE,
        backends=[nvimgcodec.Backend(nvimgcodec.BackendKind.CPU_ONLY)],
        max_num_cpu_threads=1,
    )


class Decoder(Protocol):
    """Decodes images one at a time, for the thread that made it.

    Headers are read by gpufeed, so a decoder is given images whose size and kind are known: JPEG,
    PNG, WebP, TIFF, BMP and PNM.
    """

    def decode(
        self, content: Encoded, start: tuple[int, int], shape: tuple[int, int]
    ) -> npt.NDArray[np.uint8] | None:
        """Decode a window of an image.

        Args:
            content: the encoded image.
            start: (y, x) of the window's first pixel, in the image as its EXIF orientation turns
                it.
            shape: (height, width) of the window, which lies inside the image.

        Returns:
            uint8 (height, width, 3), RGB, which the next call may overwrite; None where the image
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
        except RuntimeError:  # a header that it cannot read
            return None
        if self._image is None:
            image = self._decoder.decode(stream)
        else:
            image = self._decoder.decode(stream, image=self._image)
        if image is None:
            return None
        self._image = image if height * width * 3 <= _KEPT_BYTES else None
        # By name: np.asarray would ask for __array_interface__, which leaks 32 bytes each time.
        pixels: npt.NDArray[np.uint8] = image.cpu().__array__()
        return pixels
