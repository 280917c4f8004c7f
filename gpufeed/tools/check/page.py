"""The HTML page of findings, with thumbnails of the worst images."""

from __future__ import annotations

import base64
import html
import io
import warnings
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image, ImageFile, ImageOps

from gpufeed.decode.accept import as_ppm
from gpufeed.decode.decoders import NvImageCodec
from gpufeed.decode.headers import check_scans, image_header
from gpufeed.sheets.sheet import write_checked
from gpufeed.source.base import Encoded, Source, as_image, read_images
from gpufeed.tools.check.dataset import Report
from gpufeed.tools.check.kinds import KINDS, Problem

__all__ = ["save_page"]

_MAX_PER_KIND = 24
_SIDE = 160
_MAX_BYTES = 64 << 20
_MAX_PIXELS = 1 << 26
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem;
  padding: 0 1rem; color: #222; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .2rem 1rem .2rem 0; }
.grid { display: flex; flex-wrap: wrap; gap: 1rem; } figure { margin: 0; width: 160px; }
figure img, figure .none { width: 160px; height: 120px; object-fit: contain; background: #eee; }
.none { display: flex; align-items: center; justify-content: center; color: #888; }
figcaption { font-size: 12px; overflow-wrap: anywhere; }
.fails { color: #b00020; } .doubtful { color: #a35a00; } .note { color: #555; }
"""


def save_page(report: Report, title: str, target: Path) -> None:
    """Write a self-contained page, atomically.

    Raises:
        ConfigError: it cannot be written.
    """
    heading = html.escape(title)
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>gpufeed check: {heading}</title><style>{_STYLE}</style>",
        f"<h1>{heading}</h1><p>{report.images:,} images. A run, or reading its list, would fail on "
        f"{report.failing:,} of them. Images are numbered over the whole list.</p>",
    ]
    kinds = report.findings.group_by("kind").len()
    counts = dict(kinds.iter_rows())
    heads = "<table><tr><th>finding</th><th>images</th><th>meaning</th></tr>"
    parts.append(heads if counts else "<p>No problems found.")
    for kind, (weight, meaning) in KINDS.items():
        if kind.value in counts:
            parts.append(
                f"<tr class='{weight}'><td>{kind.value}</td><td>{counts[kind.value]:,}</td>"
                f"<td>{html.escape(meaning)}</td></tr>"
            )
    parts.append("</table>" if counts else "</p>")
    decoder = NvImageCodec()
    for kind in KINDS:
        of_kind = report.findings.filter(pl.col("kind") == kind.value)
        if of_kind.is_empty():
            continue
        parts.append(f"<h2>{kind.value}: {of_kind.height:,}</h2><div class='grid'>")
        for row in of_kind.head(_MAX_PER_KIND).iter_rows(named=True):
            # Links out of the folder are not followed.
            follow = kind is not Problem.leads_out
            encoded = _thumbnail(report.source, row["record_key"], decoder) if follow else None
            image = (
                f"<img alt='' src='data:image/jpeg;base64,{encoded}'>"
                if encoded
                else "<div class='none'>no image</div>"
            )
            name = html.escape(f"{row['record_key']}: {row['path']}")
            detail = html.escape(row["detail"])
            parts.append(f"<figure>{image}<figcaption>{name}<br>{detail}</figcaption></figure>")
        parts.append("</div>")
        if of_kind.height > _MAX_PER_KIND:
            parts.append(f"<p>and {of_kind.height - _MAX_PER_KIND:,} more</p>")
    write_checked(target, ("\n".join(parts) + "\n</html>\n").encode())


def _thumbnail(source: Source, key: int, decoder: NvImageCodec) -> str | None:
    """Return a small JPEG of an image as base64, or None if nothing of it can be decoded."""
    (content,) = read_images(source, np.array([key], dtype=np.int64))
    content = as_image(content)
    if isinstance(content, OSError):
        return None
    content = as_ppm(content)
    if len(content) > _MAX_BYTES:
        return None
    try:
        header = image_header(content)
        check_scans(content, header)
    except (OSError, ValueError):
        return None
    width, height = header[:2]
    if width * height > _MAX_PIXELS:
        return None
    pixels = decoder.decode(content, (0, 0), (height, width))
    image = _decode_partly(content) if pixels is None else Image.fromarray(pixels)
    if image is None:
        return None
    image.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=80)
    return base64.b64encode(buffer.getvalue()).decode()


def _decode_partly(content: Encoded) -> Image.Image | None:
    """Return what Pillow can decode of a truncated or damaged image."""
    allowed = ImageFile.LOAD_TRUNCATED_IMAGES
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    try:
        # Pillow prints warnings about large images.
        with (
            warnings.catch_warnings(action="ignore"),
            Image.open(io.BytesIO(content)) as image,
        ):
            # Pillow may read a different size from a false header.
            if image.width * image.height > _MAX_PIXELS:
                return None
            return ImageOps.exif_transpose(image).convert("RGB")
    except Exception:  # Pillow raises any error of its readers
        return None
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = allowed
