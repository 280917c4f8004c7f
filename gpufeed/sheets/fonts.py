"""Finding a font that has the letters of a text."""

from __future__ import annotations

import importlib.util
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from PIL import ImageFont

__all__ = ["legible", "load_fonts"]

_MISSING = "\uffff"
"""A character that no font has."""
# Names that Pillow finds among the system's fonts, those with the most scripts first.
_SYSTEM = (
    "NotoSansCJK-Regular.ttc",
    "NotoSans-Regular.ttf",
    "DejaVuSans.ttf",
    "LiberationSans.ttf",
)


def load_fonts(text: str, sizes: Sequence[int]) -> list[Any]:
    """Return one font in several sizes: the first that lacks the fewest letters of the text.

    Args:
        text: all text to be drawn.
        sizes: the sizes in pixels.
    """
    needed = sorted({letter for letter in text if letter.isprintable() and not letter.isspace()})
    best, fewest = "", len(needed) + 1
    for name in _candidates():
        missing = sum(not _has(_load(name, sizes[0]), letter) for letter in needed)
        if missing < fewest:
            best, fewest = name, missing
        if not missing:
            break
    return [_load(best, size) for size in sizes]


def legible(text: str, font: Any) -> str:
    """Return a text in which letters the font lacks lose their accents or become "?"."""
    return "".join(
        letter if letter.isspace() or _has(font, letter) else _plain(letter, font)
        for letter in text
        if letter.isprintable() or letter.isspace()
    )


def _plain(letter: str, font: Any) -> str:
    base = unicodedata.normalize("NFKD", letter)[0]
    return base if base != letter and _has(font, base) else "?"


def _candidates() -> Iterator[str]:
    """Yield the names of available fonts, first "" for Pillow's own, which has English letters."""
    yield ""
    for name in (_matplotlib_font(), *_SYSTEM):
        try:
            ImageFont.truetype(name, 10)
        except OSError:
            continue
        yield name


def _matplotlib_font() -> str:
    """Return the path of the font that matplotlib includes; it may not exist."""
    spec = importlib.util.find_spec("matplotlib")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    return str(folder / "mpl-data/fonts/ttf/DejaVuSans.ttf")


def _load(name: str, size: int) -> Any:
    return ImageFont.truetype(name, size) if name else ImageFont.load_default(size=size)


def _has(font: Any, letter: str) -> bool:
    return bytes(font.getmask(letter)) != bytes(font.getmask(_MISSING))
