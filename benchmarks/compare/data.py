"""The images to feed: real photos brought to NABirds' distribution, or synthetic birds."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from gpufeed._util.progress import progress

__all__ = ["SYNTHETIC", "VARIANTS", "list_images", "prepare"]

VARIANTS = ("originals", "cleaned")

SYNTHETIC = "synthetic"
"""What stands before a variant's name where it is not made of photos."""

_MEGAPIXELS = 0.65
_BITS = 2.5
"""Of NABirds' photos, on average: pixels, and bits for each of them."""
_LONGEST = 1024
_CLEANED = 269
_QUALITIES = range(50, 97)


def prepare(photos: Path, folder: Path, variant: str, count: int) -> list[str]:
    """Write `count` JPEGs made of some photos; returns their names below `folder`.

    "originals" are windows of the photos with NABirds' mean area and bits a pixel. "cleaned" are
    the form that courses prepare: squares of 269 pixels, quality 75.
    """
    sources = list_images(photos)
    if not sources:
        raise FileNotFoundError(f"there is no JPEG below {photos}")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = np.random.default_rng(0)
    names = [f"{number:05}.jpg" for number in range(count)]
    with progress(f"preparing {variant}", count, unit="images") as advance:
        for number, name in enumerate(names):
            with Image.open(photos / sources[number % len(sources)]) as photo:
                image = _window(photo.convert("RGB"), drawn)
            if variant == "cleaned":
                content = _encoded(image.resize((_CLEANED, _CLEANED), Image.Resampling.LANCZOS), 75)
            else:
                content = _to_bits(_to_area(image))
            (folder / name).write_bytes(content)
            advance(1)
    return names


def list_images(folder: Path) -> list[str]:
    """All JPEGs below a folder, in order."""
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.suffix.lower() in {".jpg", ".jpeg"}
    )


def _window(image: Image.Image, drawn: np.random.Generator) -> Image.Image:
    """A window of at least three quarters of each side, so that no two images are the same."""
    width, height = (round(side * drawn.uniform(0.75, 1)) for side in image.size)
    left = int(drawn.integers(0, image.width - width + 1))
    top = int(drawn.integers(0, image.height - height + 1))
    return image.crop((left, top, left + width, top + height))


def _to_area(image: Image.Image) -> Image.Image:
    scale = min(
        (_MEGAPIXELS * 1e6 / (image.width * image.height)) ** 0.5, _LONGEST / max(image.size)
    )
    size = (max(round(image.width * scale), 32), max(round(image.height * scale), 32))
    return image.resize(size, Image.Resampling.LANCZOS)


def _to_bits(image: Image.Image) -> bytes:
    """The quality that comes nearest to the wanted bits a pixel."""
    wanted = image.width * image.height * _BITS / 8
    low, high = _QUALITIES[0], _QUALITIES[-1]
    while low < high:
        middle = (low + high) // 2
        if len(_encoded(image, middle)) < wanted:
            low = middle + 1
        else:
            high = middle
    return _encoded(image, low)


def _encoded(image: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()
