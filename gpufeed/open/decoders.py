"""Decodes windows of pictures on the CPU with nvImageCodec, the decoder that DALI has inside."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

# Heeded when it is imported. What can not be decoded is told by errors, with the record; its lines
# on standard error name no file.
os.environ.setdefault("PYNVIMGCODEC_VERBOSITY", "0")

from nvidia import nvimgcodec

from gpufeed.source.base import Encoded

__all__ = ["WindowDecoder", "cpu_decoder"]

_NO_DEVICE = -99999
"""nvImageCodec's NVIMGCODEC_DEVICE_CPU_ONLY, which its Python package does not name."""

_KEPT_BYTES = 64 << 20
"""The largest picture whose memory is kept for the next one."""


def cpu_decoder() -> nvimgcodec.Decoder:
    """Return a decoder that works in its caller's thread; make one for each."""
    return nvimgcodec.Decoder(
        device_id=_NO_DEVICE,
        backends=[nvimgcodec.Backend(nvimgcodec.BackendKind.CPU_ONLY)],
        max_num_cpu_threads=1,
    )


class WindowDecoder:
    """Decodes one picture at a time, in its caller's thread and for that thread only."""

    def __init__(self) -> None:
        self._decoder = cpu_decoder()
        self._image: nvimgcodec.Image | None = None

    def decode(
        self, content: Encoded, start: tuple[int, int], shape: tuple[int, int]
    ) -> npt.NDArray[np.uint8] | None:
        """Decode a window of a picture.

        Args:
            content: the encoded picture.
            start: (y, x) of the window, in the picture as its EXIF orientation turns it.
            shape: its (height, width).

        Returns:
            uint8 (height, width, 3), RGB, overwritten by the next call; None where it can not be
            decoded.
        """
        (top, left), (height, width) = start, shape
        window = nvimgcodec.Region(top, left, top + height, left + width)
        try:
            stream = nvimgcodec.CodeStream(content).get_sub_code_stream(0, region=window)
        except RuntimeError:  # a header that it can not read
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
