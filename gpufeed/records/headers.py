"""The size and orientation of a picture, read from its header alone.

Written out here and not left to Pillow for three reasons. The orientation must be the one DALI
applies, and the two differ on odd files: DALI takes the last Exif block of a JPEG and Pillow the
first, Pillow also believes an XMP packet. Pillow decodes a whole PNG to find a late `eXIf` chunk.
And Pillow warns, through the process-wide filters, about pictures that are merely large.

What would keep a decoder busy, or have it set memory aside, out of all proportion is refused here.
"""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from gpufeed.records.exif import orientation
from gpufeed.regular import open_file

__all__ = ["PictureHeader", "check_scans", "picture_header", "picture_size"]

_ORIENTATION = 0x0112
_WIDTH, _HEIGHT = 0x0100, 0x0101
_SHORT, _LONG, _LONG8 = 3, 4, 16
# Orientations 5 to 8 turn the picture by a quarter, so its sides change places.
_TURNED = (5, 6, 7, 8)
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL = (0xC0, 0xC1)
_BARE_MARKERS = frozenset(range(0xD0, 0xD8)) | {0x01, 0xD8}
_MOST_SIDE = (1 << 31) - 1
_MOST_PARTS = 1 << 16
"""Segments or chunks, and stray bytes between them, that are gone through."""
_EXIF_LIMIT = 1 << 20
_MOST_SCANS = 256
"""Of a JPEG, whose encoders make about ten: nvImageCodec's own limit, where it heeds it."""


class PictureHeader(NamedTuple):
    """What a picture's header says of it.

    Attributes:
        width: in pixels, as the picture stands once its EXIF orientation is applied.
        height: likewise.
        orientation: 1 to 8, as EXIF numbers them; 1 where it gives none.
    """

    width: int
    height: int
    orientation: int


File = str | Path | bytes | bytearray | memoryview | BinaryIO


def picture_size(file: File) -> tuple[int, int]:
    """Width and height of a picture, as `picture_header` has them.

    Raises:
        OSError: the file can not be opened or read, or is no regular file.
        ValueError: the content is no picture of these kinds, or its header is damaged.
    """
    return picture_header(file)[:2]


def picture_header(file: File) -> PictureHeader:
    """Read a picture's size and orientation.

    Reads JPEG, PNG, WebP, TIFF, BMP and PNM, told apart by their content, never by their name.
    No pixel is decoded, and no memory is set aside for any.

    Args:
        file: a path, the bytes of a file, or a binary file that can seek (read from its start).

    Raises:
        OSError: the file can not be opened or read, or is no regular file.
        ValueError: the content is no picture of these kinds, or its header is damaged.
    """
    if isinstance(file, str | Path):
        with open_file(file) as opened:
            return _header(opened)
    if isinstance(file, bytes | bytearray | memoryview):
        return _header(io.BytesIO(file))
    return _header(file)


def check_scans(content: bytes) -> None:
    """Raise where a JPEG has more scans than any encoder makes.

    A decoder goes through the whole picture for each, and a scan takes ten bytes: a file of 200 KB
    would keep it busy for minutes.

    Args:
        content: a whole file, of which `picture_size` gives the size.

    Raises:
        ValueError: there are too many.
    """
    if not content.startswith(b"\xff\xd8") or not _jpeg_header(io.BytesIO(content))[3]:
        return
    data = np.frombuffer(content, np.uint8)
    scans = 0
    for first in (0, 1):
        # As pairs of bytes, of which a million takes a tenth of a millisecond.
        pairs = data[first : first + (len(data) - first) // 2 * 2].view("<u2")
        marks = np.flatnonzero(pairs == 0xDAFF) * 2 + first
        marks = marks[marks < len(data) - 3]
        # A scan's header is 6 bytes and 2 for each component; what follows a file may look like it.
        scans += int(((data[marks + 2] == 0) & (data[marks + 3] <= 14)).sum())
    if scans > _MOST_SCANS:
        raise ValueError(f"a JPEG of {scans:,} scans, of which {_MOST_SCANS} may be")


def _header(file: BinaryIO) -> PictureHeader:
    file.seek(0)
    head = file.read(16)
    if not head:
        raise ValueError("the file is empty")
    for starts, reader in _READERS:
        if starts.match(head):
            try:
                width, height, turn = reader(file)
            except struct.error:
                raise ValueError("the file ends within its header") from None
            if not (0 < width <= _MOST_SIDE and 0 < height <= _MOST_SIDE):
                raise ValueError(f"its header gives the size {width}x{height}")
            if turn in _TURNED:
                width, height = height, width
            return PictureHeader(width, height, turn)
    raise ValueError(f"not a JPEG, PNG, WebP, TIFF, BMP or PNM picture; it begins with {head!r}")


def _unpack(file: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _jpeg(file: BinaryIO) -> tuple[int, int, int]:
    width, height, turn, _ = _jpeg_header(file)
    return width, height, turn


def _jpeg_header(file: BinaryIO) -> tuple[int, int, int, bool]:
    """Size and orientation, and whether there may be any number of scans."""
    file.seek(2)
    size: tuple[int, int] | None = None
    exif, progressive, components, first = b"", False, 0, 0
    for _ in range(_MOST_PARTS):
        byte = file.read(1)
        if not byte:
            raise ValueError("the file ends before its first scan")
        if byte != b"\xff":  # decoders skip stray bytes between segments
            continue
        marker = file.read(1)
        if marker == b"\xff":  # and fill bytes before a marker
            file.seek(-1, io.SEEK_CUR)
            continue
        if marker in (b"", b"\x00") or marker[0] in _BARE_MARKERS:
            continue
        if marker[0] in (0xD9, 0xDA):
            first = (file.read(3) + bytes(3))[2]
            break
        (length,) = _unpack(file, ">H")
        if length < 2:
            raise ValueError(f"JPEG segment 0x{marker[0]:02X} gives the length {length}")
        end = file.tell() + length - 2
        if marker[0] in _SOF and size is None:
            _, height, width, components = _unpack(file, ">BHHB")
            size, progressive = (width, height), marker[0] not in _SEQUENTIAL
        elif marker[0] == 0xE1:
            block = file.read(length - 2)
            if block.startswith(b"Exif\0\0"):
                exif = block[6:]
        file.seek(end)
    else:
        raise ValueError(f"a JPEG with no scan after {_MOST_PARTS:,} segments or stray bytes")
    if size is None:
        raise ValueError("a JPEG without a frame header")
    return (*size, orientation(exif, whole=True), progressive or first != components)


def _png(file: BinaryIO) -> tuple[int, int, int]:
    length = _length(file)
    file.seek(8)
    _, kind, width, height = struct.unpack(">I4sII", file.read(16))
    if kind != b"IHDR":
        raise ValueError("a PNG that does not begin with IHDR")
    exif = b""
    file.seek(33)
    # eXIf may stand before or after the pixels. A file cut short has a size all the same.
    for _ in range(_MOST_PARTS):
        start = file.read(8)
        if len(start) < 8:
            break
        size, kind = struct.unpack(">I4s", start)
        end = file.tell() + size + 4
        if kind in (b"eXIf", b"IEND"):
            _check_end("PNG", kind, size, end, length)
        if kind == b"IEND":
            break
        if kind == b"eXIf" and size <= _EXIF_LIMIT:
            exif = file.read(size)
        file.seek(end)
    else:
        raise ValueError(f"a PNG of more than {_MOST_PARTS:,} chunks")
    return width, height, orientation(exif, whole=False)


def _webp(file: BinaryIO) -> tuple[int, int, int]:
    length = _length(file)
    size: tuple[int, int] | None = None
    exif = b""
    file.seek(12)
    for _ in range(_MOST_PARTS):
        start = file.read(8)
        if len(start) < 8:
            break
        kind, held = struct.unpack("<4sI", start)
        end = file.tell() + held
        if kind == b"VP8X" and size is None:
            canvas = file.read(10)
            if len(canvas) < 10:
                raise ValueError("the file ends within its header")
            size = (
                1 + int.from_bytes(canvas[4:7], "little"),
                1 + int.from_bytes(canvas[7:10], "little"),
            )
        elif kind == b"VP8 " and size is None:
            _, width, height = struct.unpack("<6sHH", file.read(10))
            size = width & 0x3FFF, height & 0x3FFF
        elif kind == b"VP8L" and size is None:
            _, bits = _unpack(file, "<BI")
            size = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        elif kind == b"EXIF":
            _check_end("WebP", kind, held, end, length)
            exif = file.read(held) if held <= _EXIF_LIMIT else b""
        file.seek(end + held % 2)
    else:
        raise ValueError(f"a WebP of more than {_MOST_PARTS:,} chunks")
    if size is None:
        raise ValueError("a WebP without a picture")
    return (*size, orientation(exif, whole=False))


def _length(file: BinaryIO) -> int:
    return file.seek(0, io.SEEK_END)


def _check_end(form: str, kind: bytes, size: int, end: int, length: int) -> None:
    """Raise where a chunk for which nvImageCodec sets memory aside is longer than the file."""
    if end > length:
        raise ValueError(
            f"a {form} whose chunk {kind.decode()} gives the length {size:,}, beyond the file's end"
        )


def _tiff(file: BinaryIO) -> tuple[int, int, int]:
    tags = _first_directory(file)
    if _WIDTH not in tags or _HEIGHT not in tags:
        raise ValueError("a TIFF that gives no size")
    return tags[_WIDTH][1], tags[_HEIGHT][1], _oriented(tags)


def _bmp(file: BinaryIO) -> tuple[int, int, int]:
    file.seek(14)
    (header,) = _unpack(file, "<I")
    width, height = _unpack(file, "<HH" if header == 12 else "<ii")
    return width, abs(height), 1  # a negative height only says which row comes first


def _pnm(file: BinaryIO) -> tuple[int, int, int]:
    file.seek(0)
    found = _PNM_HEADER.match(file.read(4096))
    if found is None:
        raise ValueError("a PNM that gives no size")
    return int(found[1]), int(found[2]), 1


def _oriented(tags: dict[int, tuple[int, int]]) -> int:
    kind, value = tags.get(_ORIENTATION, (_SHORT, 1))
    return value if kind == _SHORT and 1 <= value <= 8 else 1


def _first_directory(file: BinaryIO) -> dict[int, tuple[int, int]]:
    """Tag -> (type, value) of the one-integer entries in a TIFF's first directory."""
    file.seek(0)
    order = {b"II": "<", b"MM": ">"}.get(file.read(2))
    if order is None:
        raise ValueError("a TIFF without a byte order")
    (version,) = _unpack(file, order + "H")
    if version == 42:
        (offset,) = _unpack(file, order + "I")
        count_layout, entry_layout = order + "H", order + "HHI4s"
    elif version == 43:
        (offset,) = _unpack(file, order + "4xQ")
        count_layout, entry_layout = order + "Q", order + "HHQ8s"
    else:
        raise ValueError(f"a TIFF of version {version}")
    if offset >= 1 << 62:
        raise ValueError(f"a TIFF whose first directory is at byte {offset}")
    file.seek(offset)
    (count,) = _unpack(file, count_layout)
    tags: dict[int, tuple[int, int]] = {}
    for _ in range(min(count, 65535)):
        entry = file.read(struct.calcsize(entry_layout))
        tag, kind, number, value = struct.unpack(entry_layout, entry)
        layout = {_SHORT: "H", _LONG: "I", _LONG8: "Q"}.get(kind)
        if layout is None or number != 1 or struct.calcsize(layout) > len(value):
            continue
        (integer,) = struct.unpack_from(order + layout, value)
        tags.setdefault(tag, (kind, integer))
    return tags


_BLANK = rb"(?:\s|#[^\n\r]*[\n\r])+"
_PNM_HEADER = re.compile(rb"P[1-6]" + _BLANK + rb"(\d{1,9})" + _BLANK + rb"(\d{1,9})\s")
_READERS = [
    (re.compile(rb"\xff\xd8\xff"), _jpeg),
    (re.compile(rb"\x89PNG\r\n\x1a\n"), _png),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), _webp),
    (re.compile(rb"II[*+]\x00|MM\x00[*+]"), _tiff),
    (re.compile(rb"BM"), _bmp),
    (re.compile(rb"P[1-6]\s"), _pnm),
]
