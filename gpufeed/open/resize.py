"""Antialiased resize of one image in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from gpufeed.transforms.frame import Interpolation

try:
    import cykooz_resizer as fir
except ImportError:  # no wheel for this platform
    fir = None

__all__ = ["Resizer", "pillow_resize"]

Pixels = npt.NDArray[np.uint8]
Region = tuple[float, float, float, float]
"""(y0, x0, y1, x1) in fractional pixels."""

_NUDGE = 1e-7
"""Pixels: less than from any other position to a pixel, and too little to change a level."""
_PILLOW = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def pillow_resize(
    pixels: Pixels, interpolation: Interpolation, region: Region | None, out: Pixels
) -> None:
    """Resize with Pillow: see `Resizer.resize`."""
    y0, x0, y1, x1 = region or (0, 0, *pixels.shape[:2])
    resized = Image.fromarray(pixels).resize(
        (out.shape[1], out.shape[0]), _PILLOW[interpolation], box=(x0, y0, x1, y1)
    )
    out[...] = np.asarray(resized)


class Resizer:
    """Resizes images one at a time, on one thread, as exactly as Pillow.

    The filter is separable (triangle, or Keys' cubic with a = -0.5), its support grows with the
    reduction, and it leaves out pixels outside of the image. The library fast_image_resize does
    this with vector instructions in less than half of Pillow's time; Pillow does it if that library
    is not installed.
    """

    def __init__(self) -> None:
        self._target: Any = None
        self._algorithms: dict[str, Any] = {}
        if fir is not None:
            self._resizer = fir.Resizer()
            kinds = {"bilinear": fir.FilterType.bilinear, "bicubic": fir.FilterType.catmull_rom}
            self._algorithms = {
                name: fir.ResizeAlg.convolution(kind) for name, kind in kinds.items()
            }

    def resize(
        self, pixels: Pixels, interpolation: Interpolation, region: Region | None, out: Pixels
    ) -> None:
        """Resize an image, or a region of it, into `out`.

        Args:
            pixels: uint8 (h, w, 3).
            interpolation: "bilinear" or "bicubic".
            region: the region to resize, or None for the whole image. The filter also uses the
                pixels around the region.
            out: uint8 (H, W, 3), overwritten.
        """
        if region is None and pixels.shape == out.shape:
            out[...] = pixels
            return
        if fir is None:
            pillow_resize(pixels, interpolation, region, out)
            return
        height, width, _ = pixels.shape
        source = fir.ImageData(width, height, fir.PixelType.U8x3, pixels.tobytes())
        if self._target is None or (self._target.height, self._target.width) != out.shape[:2]:
            self._target = fir.ImageData(out.shape[1], out.shape[0], fir.PixelType.U8x3)
        crop = None
        if region is not None:
            y0, x0, y1, x1 = region
            if interpolation == "bicubic":
                (y0, y1), (x0, x1) = _inner(y0, y1, out.shape[0]), _inner(x0, x1, out.shape[1])
            crop = fir.CropBox(x0, y0, x1 - x0, y1 - y0)
        options = fir.ResizeOptions(self._algorithms[interpolation], crop_box=crop)
        self._resizer.resize(source, self._target, options)
        out[...] = np.frombuffer(self._target.get_buffer(), np.uint8).reshape(out.shape)


def _inner(start: float, end: float, size: int) -> tuple[float, float]:
    """Return a side of a region a little smaller, if it is resized by a cubic.

    fast_image_resize first leaves out pixels of which the first and the last output pixel need
    none, and it does not count pixels of weight 0. A cubic is 0 where an output pixel lies on a
    pixel, and the output pixels between then read outside of what is left.
    """
    return (start, end) if end - start == size else (start + _NUDGE, end - _NUDGE)
