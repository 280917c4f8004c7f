"""Encoding prepared images, each to the same bytes every time."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image

from gpufeed.source.base import Pixels
from gpufeed.tools.prepare.settings import ImageFormat, Settings

__all__ = ["ENDINGS", "encode", "too_long"]

ENDINGS: dict[ImageFormat | None, str] = {
    "jpeg": ".jpg",
    "png": ".png",
    "webp": ".webp",
    None: ".rgb",
}
"""Endings of the names of images."""
_LONGEST = {"jpeg": 65_500, "webp": 16_383}
"""Pixels of a side, at most, of the libraries that encode them."""
_COMPRESS_LEVEL = 1
"""Of PNG: photos are 6 % longer than at the usual 6, and are written in a third of the time."""


def too_long(pixels: Pixels, settings: Settings) -> str:
    """Return why an image has too long a side to be encoded; empty if it has none."""
    longest, (height, width, _) = _LONGEST.get(settings.image_format or ""), pixels.shape
    if longest is None or max(height, width) <= longest:
        return ""
    return (
        f"after the transforms, the image is {width:,} x {height:,} pixels (width x height), and "
        f"{settings.image_format} has {longest:,} a side at most"
    )


def encode(pixels: Pixels, settings: Settings) -> bytes:
    """Return an image encoded, or its pixels as they are."""
    if settings.image_format is None:
        return pixels.tobytes()
    options: dict[str, Any] = {"quality": settings.quality}
    if settings.image_format == "jpeg":
        options["subsampling"] = settings.subsampling
    elif settings.image_format == "png":
        options = {"compress_level": _COMPRESS_LEVEL}
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, settings.image_format, **options)
    return buffer.getvalue()
