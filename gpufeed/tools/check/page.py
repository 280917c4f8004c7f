"""The page of what was found, with thumbnails of the worst."""

from __future__ import annotations

import base64
import html
import io
import warnings
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image, ImageFile, ImageOps

from gpufeed._util.atomic_write import atomic_write
from gpufeed.open.decoders import NvImageCodec
from gpufeed.records.headers import check_scans, image_size
from gpufeed.source.base import Encoded, Source, read_images
from gpufeed.tools.check.dataset import Report
from gpufeed.tools.check.kinds import KINDS, Kind

__all__ = ["save_page"]

_MOST_OF_A_KIND = 24
_SIDE = 160
_MOST_BYTES = 64 << 20
_MOST_PIXELS = 1 << 26
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
    """Write a page that needs nothing but itself, whole or not at all.

    Raises:
        OSError: it cannot be written; the error names `target`.
    """
    shown = html.escape(title)
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>gpufeed check: {shown}</title><style>{_STYLE}</style>",
        f"<h1>{shown}</h1><p>{report.images:,} images; over {report.failing:,} of them a run, or "
        "the reading of its list, would fail. They are numbered over the whole list.</p>",
    ]
    kinds = report.findings.group_by("kind").len()
    counts = dict(kinds.iter_rows())
    parts.append("<table><tr><th>found</th><th>images</th><th>which means</th></tr>")
    for kind, (weight, meaning) in KINDS.items():
        if kind.value in counts:
            parts.append(
                f"<tr class='{weight}'><td>{kind.value}</td><td>{counts[kind.value]:,}</td>"
                f"<td>{html.escape(meaning)}</td></tr>"
            )
    parts.append("</table>")
    decoder = NvImageCodec()
    for kind in KINDS:
        of_kind = report.findings.filter(pl.col("kind") == kind.value)
        if of_kind.is_empty():
            continue
        parts.append(f"<h2>{kind.value}: {of_kind.height:,}</h2><div class='grid'>")
        for row in of_kind.head(_MOST_OF_A_KIND).iter_rows(named=True):
            out = kind is Kind.leads_out
            picture = None if out else _thumbnail(report.source, row["record_key"], decoder)
            seen = (
                f"<img alt='' src='data:image/jpeg;base64,{picture}'>"
                if picture
                else "<div class='none'>no image</div>"
            )
            said = html.escape(f"{row['record_key']}: {row['path']}")
            detail = html.escape(row["detail"])
            parts.append(f"<figure>{seen}<figcaption>{said}<br>{detail}</figcaption></figure>")
        parts.append("</div>")
        if of_kind.height > _MOST_OF_A_KIND:
            parts.append(f"<p>and {of_kind.height - _MOST_OF_A_KIND:,} more</p>")
    atomic_write(target, ("\n".join(parts) + "\n</html>\n").encode())


def _thumbnail(source: Source, key: int, decoder: NvImageCodec) -> str | None:
    """What a run makes of an image, or Pillow of what is left of it, small, as base64; or None."""
    (content,) = read_images(source, np.array([key], dtype=np.int64))
    if isinstance(content, OSError) or len(content) > _MOST_BYTES:
        return None
    try:
        width, height = image_size(content)
        check_scans(content)
    except (OSError, ValueError):
        return None
    if width * height > _MOST_PIXELS:
        return None
    pixels = decoder.decode(content, (0, 0), (height, width))
    image = _rest_of(content) if pixels is None else Image.fromarray(pixels)
    if image is None:
        return None
    image.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=80)
    return base64.b64encode(buffer.getvalue()).decode()


def _rest_of(content: Encoded) -> Image.Image | None:
    """What Pillow makes of an image that is cut off, or else damaged."""
    allowed = ImageFile.LOAD_TRUNCATED_IMAGES
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    try:
        # Pillow warns on standard error of large images.
        with (
            warnings.catch_warnings(action="ignore"),
            Image.open(io.BytesIO(content)) as image,
        ):
            # It may read another size in a header that lies.
            if image.width * image.height > _MOST_PIXELS:
                return None
            return ImageOps.exif_transpose(image).convert("RGB")
    except Exception:  # Pillow raises whatever its readers meet
        return None
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = allowed
