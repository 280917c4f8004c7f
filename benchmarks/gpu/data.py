"""The images of a run: the photos as they are listed, and in other formats, turned and damaged."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

import gpufeed
from benchmarks.compare.data import list_images
from benchmarks.gpu.job import Job

__all__ = ["DAMAGES", "FORMATS", "encoded_as", "in_memory", "listed", "shrunk"]

FORMATS: Mapping[str, tuple[str, str, Mapping[str, object]]] = {
    "JPEG 4:2:0": ("RGB", "JPEG", {"subsampling": 2}),
    "JPEG 4:2:2": ("RGB", "JPEG", {"subsampling": 1}),
    "JPEG 4:4:4": ("RGB", "JPEG", {"subsampling": 0}),
    "JPEG grey": ("L", "JPEG", {}),
    "JPEG CMYK": ("CMYK", "JPEG", {}),
    "JPEG progressive": ("RGB", "JPEG", {"progressive": True}),
    "JPEG restarts": ("RGB", "JPEG", {"restart_marker_blocks": 4}),
    "PNG": ("RGB", "PNG", {}),
    "PNG palette": ("P", "PNG", {}),
    "WebP": ("RGB", "WEBP", {}),
    "TIFF": ("RGB", "TIFF", {}),
    "BMP": ("RGB", "BMP", {}),
    **{f"JPEG EXIF {turn}": ("RGB", "JPEG", {"exif": turn}) for turn in range(1, 9)},
}
"""Pillow's mode, format and options of each kind of file; "exif" is an orientation."""

_ORIENTATION = 0x0112
_SHAPE = (643, 481)
"""Width and height of the first small image: multiples of no block."""


def listed(job: Job, count: int) -> gpufeed.Manifest:
    """Return a manifest of `count` records, the photos again and again."""
    names = list(itertools.islice(itertools.cycle(list_images(Path(job.photos))), count))
    table = pl.DataFrame({"path": names, "label": [0] * count})
    return gpufeed.read_table(table, root=job.photos, progress=False)


def in_memory(images: Sequence[bytes], sizes: Sequence[tuple[int, int]]) -> gpufeed.Manifest:
    """Return a manifest of encoded images of these sizes, (width, height) as they are seen.

    Each has a box in its middle.
    """
    rows = [
        {
            "path": str(number),
            "label": 0,
            "width": width,
            "height": height,
            "box_x": width // 4,
            "box_y": height // 4,
            "box_width": width // 2,
            "box_height": height // 2,
        }
        for number, (width, height) in enumerate(sizes)
    ]
    source = gpufeed.MemorySource(images)
    return gpufeed.read_table(pl.DataFrame(rows), source=source, progress=False)


def shrunk(job: Job, count: int) -> list[Image.Image]:
    """Return some of the photos, each of another odd size."""
    images = []
    for number, name in zip(range(count), itertools.cycle(list_images(Path(job.photos)))):
        with Image.open(Path(job.photos, name)) as photo:
            size = (_SHAPE[0] + 2 * number, _SHAPE[1] - 3 * number)
            images.append(photo.convert("RGB").resize(size))
    return images


def encoded_as(
    images: Sequence[Image.Image], kind: str
) -> tuple[list[bytes], list[tuple[int, int]]]:
    """Encode images as one of `FORMATS`; return the files and their sizes as they are seen."""
    mode, form, options = FORMATS[kind]
    files, sizes = [], []
    for image in images:
        more = dict(options)
        turn = more.get("exif", 1)
        if turn != 1:
            exif = Image.Exif()
            exif[_ORIENTATION] = turn
            more["exif"] = exif
        else:
            more.pop("exif", None)
        if form == "JPEG":
            more["quality"] = 90
        buffer = io.BytesIO()
        image.convert(mode).save(buffer, form, **more)
        files.append(buffer.getvalue())
        sizes.append(image.size[::-1] if isinstance(turn, int) and turn > 4 else image.size)
    return files, sizes


def _flipped(content: bytes) -> bytes:
    place = len(content) * 3 // 4
    changed = bytes(np.frombuffer(content[place : place + 10], np.uint8) ^ 0x24)
    return content[:place] + changed + content[place + 10 :]


DAMAGES: Mapping[str, Callable[[bytes], bytes]] = {
    "cut in half": lambda content: content[: len(content) // 2],
    "last tenth lost": lambda content: content[: len(content) * 9 // 10],
    "no end marker": lambda content: content[:-2],
    "bits flipped": _flipped,
    "header only": lambda content: content[: content.index(b"\xff\xda")],
    "bytes before": lambda content: b"\0" * 10 + content,
    "bytes after": lambda content: content + b"\0" * 1000,
    "web page": lambda _: b"<!DOCTYPE html><html><body>404</body></html>" * 20,
    "empty": lambda _: b"",
}
"""Functions from a whole JPEG to a damaged one."""
