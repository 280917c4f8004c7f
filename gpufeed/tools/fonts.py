"""A font that has the letters of a text, if there is one."""

from __future__ import annotations

import importlib.util
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from PIL import ImageFont

__all__ = ["legible", "load_fonts"]

_MISSING = "\uffff"
"""No font has an image for this."""
# Names that Pillow finds among the system's fonts; of many scripts, the widest first.
_SYSTEM = (
    "NotoSansCJK-Regular.ttc",
    "NotoSans-Regular.ttf",
    "DejaVuSans.ttf",
    "LiberationSans.ttf",
)


def load_fonts(text: str, sizes: Sequence[int]) -> list[Any]:
    """Return a font in some sizes: Pillow's own, or the first found that has more of the text.

    Args:
        text: all that will be written.
        sizes: in pixels.
    """
    needed = sorted({letter for letter in text if letter.isprintable() and not letter.isspace()})
    best, least = "", len(needed) + 1
    for name in _candidates():
        lacking = sum(not _has(_load(name, sizes[0]), letter) for letter in needed)
        if lacking < least:
            best, least = name, lacking
        if not lacking:
            break
    return [_load(best, size) for size in sizes]


def legible(text: str, font: Any) -> str:
    """Return a text with each letter the font lacks replaced: without its accents, or by "?"."""
    return "".join(
        letter if letter.isspace() or _has(font, letter) else _plain(letter, font)
        for letter in text
        if letter.isprintable() or letter.isspace()
    )


def _plain(letter: str, font: Any) -> str:
    base = unicodedata.normalize("NFKD", letter)[0]
    return base if base != letter and _has(font, base) else "?"


def _candidates() -> Iterator[str]:
    """Names of fonts to be had here; "" is Pillow's own, which has the letters of English."""
    yield ""
    for name in (_matplotlibs(), *_SYSTEM):
        try:
            ImageFont.truetype(name, 10)
        except OSError:
            continue
        yield name


def _matplotlibs() -> str:
    """The font that matplotlib brings, where it is installed."""
    found = importlib.util.find_spec("matplotlib")
    folder = Path(found.origin).parent if found and found.origin else Path()
    return str(folder / "mpl-data/fonts/ttf/DejaVuSans.ttf")


def _load(name: str, size: int) -> Any:
    return ImageFont.truetype(name, size) if name else ImageFont.load_default(size=size)


def _has(font: Any, letter: str) -> bool:
    return bytes(font.getmask(letter)) != bytes(font.getmask(_MISSING))
