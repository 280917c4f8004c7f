"""Contact sheets: images in a grid with captions, or in named rows."""

from __future__ import annotations

import io
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from gpufeed._util.atomic_write import atomic_write
from gpufeed.errors import ConfigError
from gpufeed.records.label_kinds import describe_label
from gpufeed.sheets.fonts import legible, load_fonts

if TYPE_CHECKING:
    import polars as pl

    from gpufeed.records import Manifest

__all__ = [
    "Caption",
    "Row",
    "captions_of",
    "check_file",
    "check_target",
    "draw_rows",
    "draw_sheet",
    "save_sheet",
    "wrap",
    "write_checked",
]

_Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

_MARGIN = 24
_GAP = 16
_MIN_CELL_WIDTH = 192
"""Pixels, so that a caption fits below a tiny image."""
_MAX_COLUMNS = 8
_ASPECT = 1.5
"""The preferred width over height of a sheet."""

_PAPER = (255, 255, 255)
_INK = (28, 30, 33)
_PALE = (104, 110, 118)
_TITLE_SIZE, _NOTE_SIZE, _FOOTER_SIZE = 15, 13, 13
_CAPTION_TOP, _TITLE_LINE, _NOTE_LINE, _FOOTER_LINE = 6, 20, 18, 18
_MAX_LINES = 3
"""Lines of a title or a note."""
_NAMES_WIDTH = 288
"""Width of the names of rows in pixels."""
_ROW_GAP = 8
_SEPARATOR = " \u00b7 "
_ELLIPSIS = "\u2026"
_LOOSE = " ,;&(-"
"""Characters that are removed before an ellipsis."""


@dataclass(frozen=True)
class Caption:
    """The title and the note below an image."""

    title: str
    note: str


@dataclass(frozen=True)
class Row:
    """Images side by side, the first a little apart, with a name and a note on their left."""

    name: str
    note: str
    images: Sequence[npt.NDArray[np.uint8]]


def captions_of(manifest: Manifest, rows: pl.DataFrame) -> list[Caption]:
    """Return a caption for each record of a batch.

    The title is the species, or the label where it is not the class or there is no species: the
    names of its classes, or its numbers. The note is the photographer or, without one, the path.

    Args:
        manifest: the loader's manifest.
        rows: the result of `loader.rows(batch)`.
    """
    captions = []
    for row in rows.iter_rows(named=True):
        species = row.get("species_name") or row.get("class_name")
        label, photographer = row.get("label"), row.get("photographer")
        if label is not None and not (species and isinstance(label, int)):
            species = describe_label(label, manifest.classes)
        note = f"Photo: {photographer}" if photographer else str(row["path"])
        captions.append(Caption(str(species or ""), note))
    return captions


def draw_sheet(
    images: npt.NDArray[np.uint8],
    captions: Sequence[Caption],
    facts: Sequence[str] = (),
    *,
    columns: int | None = None,
) -> Image.Image:
    """Draw a sheet; the same arguments give the same pixels.

    Args:
        images: uint8 (n, height, width, 3), n at least 1; shown pixel by pixel.
        captions: n captions, wrapped to the width of their column.
        facts: texts for the bottom of the sheet, in as few lines as they fit in.
        columns: images in a row; None for a sheet close to the aspect 3:2.

    Raises:
        ConfigError: the images have another shape or dtype, or the number of captions differs.
    """
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] != 3 or not images.size:
        raise ConfigError(
            f"images are {images.dtype} {images.shape}; a sheet needs uint8 (n, height, width, 3), "
            'which transforms that end in ToDtype("uint8", layout="NHWC") make'
        )
    count, height, width, _ = images.shape
    if len(captions) != count:
        raise ConfigError(f"there are {len(captions)} captions for {count} images")
    if columns is not None and columns < 1:
        raise ConfigError(f"columns is {columns}; it must be at least 1")

    cell_width = max(width, _MIN_CELL_WIDTH)
    texts = [*facts, *(text for caption in captions for text in (caption.title, caption.note))]
    title_font, note_font, footer_font = load_fonts(
        "".join(texts), (_TITLE_SIZE, _NOTE_SIZE, _FOOTER_SIZE)
    )
    lines = [
        _lines(each.title, title_font, cell_width, _INK, _TITLE_LINE)
        + _lines(each.note, note_font, cell_width, _PALE, _NOTE_LINE)
        for each in captions
    ]
    cell_height = height + _CAPTION_TOP + max(map(_height, lines))
    columns = min(columns or _choose_columns(count, cell_width, cell_height), count)
    rows = math.ceil(count / columns)
    across = columns * cell_width + (columns - 1) * _GAP
    footer = _fill_lines(facts, footer_font, across)
    footer_top = _MARGIN + rows * (cell_height + _GAP)
    size = (across + 2 * _MARGIN, footer_top + len(footer) * _FOOTER_LINE + _MARGIN)
    sheet = Image.new("RGB", size, _PAPER)
    pen = ImageDraw.Draw(sheet)
    for place, image in enumerate(images):
        row, column = divmod(place, columns)
        left = _MARGIN + column * (cell_width + _GAP)
        top = _MARGIN + row * (cell_height + _GAP)
        sheet.paste(Image.fromarray(image), (left + (cell_width - width) // 2, top))
        _write_lines(pen, (left, top + height + _CAPTION_TOP), lines[place])
    _write_lines(pen, (_MARGIN, footer_top), footer)
    sheet.info["Description"] = _SEPARATOR.join(facts)
    return sheet


def draw_rows(
    rows: Sequence[Row], heads: Sequence[str], facts: Sequence[str] = (), *, size: int
) -> Image.Image:
    """Draw a sheet of named rows; the same arguments give the same pixels.

    Args:
        rows: one or more rows; images are at most `size` by `size`, and smaller ones are centred.
        heads: three texts at the top: above the names, the first images, and all others.
        facts: texts for the bottom of the sheet.
        size: the side of an image's cell in pixels.

    Raises:
        ConfigError: there are no rows.
    """
    if not rows:
        raise ConfigError("there are no rows to draw")
    texts = [*heads, *facts, *(text for row in rows for text in (row.name, row.note))]
    title_font, note_font, footer_font = load_fonts(
        "".join(texts), (_TITLE_SIZE, _NOTE_SIZE, _FOOTER_SIZE)
    )
    most = max(len(row.images) for row in rows)
    starts = [_MARGIN + _NAMES_WIDTH + _GAP + place * (size + _ROW_GAP) for place in range(most)]
    starts[1:] = [start + _GAP for start in starts[1:]]
    named = [
        _lines(row.name, title_font, _NAMES_WIDTH, _INK, _TITLE_LINE)
        + _lines(row.note, note_font, _NAMES_WIDTH, _PALE, _NOTE_LINE)
        for row in rows
    ]
    heights = [max(size, _height(lines)) for lines in named]
    top = _MARGIN + _FOOTER_LINE + _ROW_GAP
    across = starts[-1] + size - _MARGIN
    footer = _fill_lines(facts, footer_font, across)
    bottom = top + sum(heights) + len(rows) * _ROW_GAP + _GAP
    sheet_size = (across + 2 * _MARGIN, bottom + len(footer) * _FOOTER_LINE + _MARGIN)
    sheet = Image.new("RGB", sheet_size, _PAPER)
    pen = ImageDraw.Draw(sheet)
    for left, text in zip((_MARGIN, *starts[:2]), heads, strict=False):
        pen.text((left, _MARGIN), text, font=footer_font, fill=_PALE)
    for row, lines, height in zip(rows, named, heights, strict=True):
        _write_lines(pen, (_MARGIN, top), lines)
        for left, image in zip(starts, row.images, strict=False):
            spare_y, spare_x = size - image.shape[0], size - image.shape[1]
            sheet.paste(Image.fromarray(image), (left + spare_x // 2, top + spare_y // 2))
        top += height + _ROW_GAP
    _write_lines(pen, (_MARGIN, bottom), footer)
    sheet.info["Description"] = _SEPARATOR.join(facts)
    return sheet


class _Line(NamedTuple):
    text: str
    font: _Font
    ink: tuple[int, int, int]
    height: int


def _lines(
    text: str, font: _Font, width: float, ink: tuple[int, int, int], height: int
) -> list[_Line]:
    return [_Line(line, font, ink, height) for line in wrap(legible(text, font), font, width)]


def _height(lines: Sequence[_Line]) -> int:
    return sum(line.height for line in lines)


def _write_lines(pen: ImageDraw.ImageDraw, at: tuple[int, int], lines: Sequence[_Line]) -> None:
    left, top = at
    for line in lines:
        pen.text((left, top), line.text, font=line.font, fill=line.ink)
        top += line.height


def check_target(path: str | os.PathLike[str], default_name: str = "gpufeed.png") -> Path:
    """Return the PNG file to write: `path`, or `default_name` in it if it is a folder.

    A name without an ending is a folder too, which `save_sheet` makes.

    Raises:
        ConfigError: its name has another ending, or it cannot be written.
    """
    target = Path(path).expanduser()
    if target.is_dir() or not target.suffix:
        target = target / default_name
    if target.suffix.lower() != ".png":
        raise ConfigError(
            f"{target} is neither a folder nor a name that ends in .png; pass one of these"
        )
    return _check_writable(target)


def check_file(path: Path | None, *endings: str) -> Path | None:
    """Return the file to write, which `write_checked` makes with its folder; None for None.

    Args:
        path: the file.
        endings: what its name may end in, in lower case; any ending if there are none.

    Raises:
        ConfigError: its name has another ending, it is a folder, or it cannot be written.
    """
    if path is None:
        return None
    target = path.expanduser()
    if target.is_dir():
        raise ConfigError(f"cannot write {target}: it is a folder; name a file")
    if endings and not target.name.lower().endswith(endings):
        raise ConfigError(f"cannot write {target}: its name must end in {endings[0]}")
    return _check_writable(target)


def _check_writable(target: Path) -> Path:
    target = target.absolute()
    try:
        folder = next(each for each in target.parents if each.exists())
        # Mode and owner alone do not show whether writing will succeed.
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def save_sheet(sheet: Image.Image, path: Path) -> None:
    """Write an image as PNG, with its facts as its Description; the same sheet, the same bytes.

    Raises:
        ConfigError: the file cannot be written.
    """
    buffer, texts = io.BytesIO(), PngInfo()
    if "Description" in sheet.info:
        texts.add_text("Description", sheet.info["Description"])
    sheet.save(buffer, "PNG", optimize=False, compress_level=6, pnginfo=texts)
    write_checked(path, buffer.getvalue())


def write_checked(path: Path, content: bytes) -> None:
    """Write a file atomically; make its folder if there is none.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, content)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error


def wrap(text: str, font: _Font, width: float) -> list[str]:
    """Return `text` wrapped at words to one to three lines of at most this width.

    A word that is too wide has an ellipsis in its middle, since paths differ at their end; a last
    line that is too long ends in one.

    Args:
        text: the text; white space and control characters become single spaces.
        font: the font that the text is measured in.
        width: the width in pixels.
    """
    words = "".join(c if c.isprintable() else " " for c in text).split()
    lines = [""]
    for word in words:
        longer = f"{lines[-1]} {word}".lstrip()
        if not lines[-1] or len(lines) == _MAX_LINES or font.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return [_shorten(line, font, width) for line in lines]


def _shorten(text: str, font: _Font, width: float) -> str:
    if font.getlength(text) <= width:
        return text

    def cut(kept: int) -> str:
        ahead = kept if " " in text else kept // 2
        return text[:ahead].rstrip(_LOOSE) + _ELLIPSIS + text[len(text) - (kept - ahead) :]

    # Bisection for the most letters that fit.
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if font.getlength(cut(middle)) <= width:
            fits = middle
        else:
            too_long = middle
    return cut(fits)


def _fill_lines(facts: Sequence[str], font: _Font, width: float) -> list[_Line]:
    """Return the facts in lines of at most this width; shorten those that are wider."""
    lines: list[str] = []
    for fact in facts:
        longer = f"{lines[-1]}{_SEPARATOR}{fact}" if lines else fact
        if lines and font.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(fact)
    return [_Line(_shorten(line, font, width), font, _PALE, _FOOTER_LINE) for line in lines]


def _choose_columns(count: int, width: int, height: int) -> int:
    """Return a number of columns that is close to the preferred aspect with few empty cells."""

    def penalty(columns: int) -> float:
        rows = math.ceil(count / columns)
        aspect = (columns * (width + _GAP)) / (rows * (height + _GAP))
        empty = (rows * columns - count) / count
        return abs(math.log(aspect / _ASPECT)) + 2 * empty

    return min(range(1, min(count, _MAX_COLUMNS) + 1), key=penalty)
