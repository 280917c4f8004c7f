"""The size and orientation of an image, read from its header alone.

Written out here and not left to Pillow for three reasons. The orientation must be the one by which
the decoders turn an image, and Pillow's is another on odd files: it believes an XMP packet, and
the EXIF chunk of a WebP that does not announce one. Pillow decodes a whole PNG to find a late
`eXIf` chunk. And Pillow warns, through the process-wide filters, about images that are merely
large.

Where a file gives several orientations that differ it is refused, since decoders do not agree on
which counts: nvImageCodec mostly takes the first Exif block, DALI the last. What would keep a
decoder busy, or have it set memory aside, out of all proportion is refused too.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from gpufeed._util.open_regular import open_regular
from gpufeed._util.sanitize import printable
from gpufeed.records.exif import orientation
from gpufeed.source.base import Encoded

__all__ = ["ImageHeader", "check_scans", "image_header", "image_size", "most_bytes"]

_WIDTH, _HEIGHT, _ORIENTATION, _SAMPLES = 0x0100, 0x0101, 0x0112, 0x0115
_TILE_WIDTH, _TILE_HEIGHT = 0x0142, 0x0143
_TAGS = {
    _WIDTH: "width",
    _HEIGHT: "height",
    _ORIENTATION: "orientation",
    _SAMPLES: "number of samples",
    _TILE_WIDTH: "tile width",
    _TILE_HEIGHT: "tile height",
}
_SHORT, _LONG, _LONG8 = 3, 4, 16
_MOST_TILE = 1 << 24
"""Samples of a tile, of an image of any size: 2,048 x 2,048 pixels of four."""
# Orientations 5 to 8 turn the image by a quarter, so its sides change places.
_TURNED = (5, 6, 7, 8)
_IHDR_BYTES = 13
_PIXEL_BYTES = 16
"""Bytes of a pixel in the most wasteful of formats, four channels of 32 bits each."""
_SPARE_BYTES = 1 << 24
"""What a file may have beside its pixels: previews, profiles, texts."""
_WEBP_PIXELS = (b"VP8 ", b"VP8L")
_WEBP_EXIF = 0x08
"""The flag in VP8X that there is an EXIF chunk; without it decoders do not look for one."""
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL = (0xC0, 0xC1)
_BARE_MARKERS = frozenset(range(0xD0, 0xD8)) | {0x01, 0xD8}
_MOST_SIDE = (1 << 31) - 1
_MOST_PARTS = 1 << 16
"""Segments or chunks, and stray bytes between them, that are gone through."""
_EXIF_LIMIT = 1 << 20
_MOST_BLOCKS = 16
"""Exif blocks that are gone through: each may take a millisecond, and cameras write one."""
_MOST_SCANS = 256
"""Of a JPEG, whose encoders make about ten: nvImageCodec's own limit, where it heeds it."""


class ImageHeader(NamedTuple):
    """What an image's header says of it.

    Attributes:
        width: in pixels, as the image stands once its EXIF orientation is applied.
        height: likewise.
        orientation: 1 to 8, as EXIF numbers them; 1 where it gives none.
    """

    width: int
    height: int
    orientation: int


File = str | Path | Encoded | BinaryIO


def image_size(file: File) -> tuple[int, int]:
    """Width and height of an image, as `image_header` has them.

    Raises:
        OSError: the file cannot be opened or read, or is no regular file.
        ValueError: the content is no image of these kinds, or its header is damaged.
    """
    return image_header(file)[:2]


def image_header(file: File) -> ImageHeader:
    """Read an image's size and orientation.

    Reads JPEG, PNG, WebP, TIFF, BMP and PNM, told apart by their content, never by their name.
    No pixel is decoded, and no memory is set aside for any.

    Args:
        file: a path, the bytes of a file, or a binary file that can seek (read from its start).

    Raises:
        OSError: the file cannot be opened or read, or is no regular file.
        ValueError: the content is no image of these kinds, or its header is damaged.
    """
    if isinstance(file, str | Path):
        with open_regular(file) as opened:
            return _header(opened)
    if isinstance(file, bytes | bytearray | memoryview):
        return _header(io.BytesIO(file))
    return _header(file)


Pixels = TypeVar("Pixels", int, npt.NDArray[np.int64])


def most_bytes(pixels: Pixels) -> Pixels:
    """Return how many bytes the file of an image of so many pixels may have."""
    return pixels * _PIXEL_BYTES + _SPARE_BYTES


def check_scans(content: Encoded) -> None:
    """Raise where a JPEG has more scans than any encoder makes.

    A decoder goes through the whole image for each, and a scan takes ten bytes: a file of 200 KB
    would keep it busy for minutes.

    Args:
        content: a whole file, of which `image_size` gives the size.

    Raises:
        ValueError: there are too many.
    """
    if bytes(content[:2]) != b"\xff\xd8" or not _jpeg_header(io.BytesIO(content))[3]:
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


def _header(file: BinaryIO) -> ImageHeader:
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
            return ImageHeader(width, height, turn)
    raise ValueError(f"not a JPEG, PNG, WebP, TIFF, BMP or PNM image; it begins with {head!r}")


def _unpack(file: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _jpeg(file: BinaryIO) -> tuple[int, int, int]:
    width, height, turn, _ = _jpeg_header(file)
    return width, height, turn


def _jpeg_header(file: BinaryIO) -> tuple[int, int, int, bool]:
    """Size and orientation, and whether there may be any number of scans."""
    file.seek(2)
    size: tuple[int, int] | None = None
    turns: list[int] = []
    progressive, components, first = False, 0, 0
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
                _add_turn(turns, "JPEG", block[6:], whole=True)
        file.seek(end)
    else:
        raise ValueError(f"a JPEG with no scan after {_MOST_PARTS:,} segments or stray bytes")
    if size is None:
        raise ValueError("a JPEG without a frame header")
    return (*size, _agreed(turns, "JPEG"), progressive or first != components)


def _add_turn(turns: list[int], form: str, block: bytes, *, whole: bool = False) -> None:
    if len(turns) == _MOST_BLOCKS:
        raise ValueError(f"a {form} of more than {_MOST_BLOCKS} Exif blocks")
    turns.append(orientation(block, whole=whole))


def _agreed(turns: list[int], form: str) -> int:
    """Return the orientation that all Exif blocks give, 1 where there is none.

    A block that gives none counts as upright: a decoder that takes it does not turn the image.
    """
    if not turns:
        return 1
    if len(set(turns)) > 1:
        raise ValueError(f"a {form} whose Exif blocks give the orientations {_listed(turns)}")
    return turns[0]


def _listed(values: list[int]) -> str:
    return " and ".join(str(value) for value in dict.fromkeys(values))


def _png(file: BinaryIO) -> tuple[int, int, int]:
    length = _length(file)
    file.seek(8)
    size, kind, width, height = struct.unpack(">I4sII", file.read(16))
    if kind != b"IHDR":
        raise ValueError("a PNG that does not begin with IHDR")
    if size != _IHDR_BYTES:
        raise ValueError(f"a PNG whose chunk IHDR gives the length {size:,}, not {_IHDR_BYTES}")
    turns: list[int] = []
    file.seek(33)
    # eXIf may stand before or after the pixels. A file cut short has a size all the same.
    for _ in range(_MOST_PARTS):
        start = file.read(8)
        if len(start) < 8:
            break
        size, kind = struct.unpack(">I4s", start)
        end = file.tell() + size + 4
        # Pixels may be cut short, but not claim to be many times what they can be.
        if kind != b"IDAT" or size > most_bytes(width * height):
            _check_end("PNG", kind, size, end, length)
        if kind == b"IEND":
            break
        if kind == b"eXIf":
            _check_exif("PNG", size)
            block = file.read(size)
            # Of the decoders, some leave such a chunk out.
            if file.read(4) != struct.pack(">I", zlib.crc32(kind + block)):
                raise ValueError("a PNG whose chunk eXIf has a wrong checksum")
            _add_turn(turns, "PNG", block)
        file.seek(end)
    else:
        raise ValueError(f"a PNG of more than {_MOST_PARTS:,} chunks")
    return width, height, _agreed(turns, "PNG")


def _webp(file: BinaryIO) -> tuple[int, int, int]:
    length = _length(file)
    file.seek(4)
    (said,) = _unpack(file, "<I")
    size: tuple[int, int] | None = None
    turns: list[int] = []
    announced = False
    seen: set[bytes] = set()
    file.seek(12)
    for _ in range(_MOST_PARTS):
        at = file.tell()
        start = file.read(8)
        if len(start) < 8:
            break
        kind, held = struct.unpack("<4sI", start)
        end = at + 8 + held
        # What follows the RIFF's own end is no part of the image, though nvImageCodec sets memory
        # aside for an EXIF chunk there.
        if at >= 8 + said:
            if kind == b"EXIF":
                _check_end("WebP", kind, held, end, length)
            if end > length:
                break
            file.seek(end + held % 2)
            continue
        if kind not in _WEBP_PIXELS:  # which may be cut short
            _check_end("WebP", kind, held, end, length)
        if kind in (b"VP8X", b"VP8 ", b"VP8L"):
            # With two, or with VP8X behind the pixels, nvImageCodec heeds no EXIF chunk.
            if kind in seen:
                raise ValueError(f"a WebP of two chunks {kind.decode().strip()}")
            seen.add(kind)
        if kind == b"VP8X" and size is None:
            canvas = file.read(10)
            if len(canvas) < 10:
                raise ValueError("the file ends within its header")
            announced = bool(canvas[0] & _WEBP_EXIF)
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
        elif kind == b"EXIF" and announced:
            _check_exif("WebP", held)
            _add_turn(turns, "WebP", file.read(held))
        file.seek(end + held % 2)
    else:
        raise ValueError(f"a WebP of more than {_MOST_PARTS:,} chunks")
    if size is None:
        raise ValueError("a WebP without an image")
    return (*size, _agreed(turns, "WebP"))


def _length(file: BinaryIO) -> int:
    return file.seek(0, io.SEEK_END)


def _check_end(form: str, kind: bytes, size: int, end: int, length: int) -> None:
    """Raise where a chunk is longer than the file: decoders set memory aside for most of them."""
    if end > length:
        raise ValueError(
            f"a {form} whose chunk {printable(kind.decode('latin-1'))} gives the length {size:,}, "
            "beyond the file's end"
        )


def _check_exif(form: str, size: int) -> None:
    """Raise where an Exif block is too long to be read for the sake of a number."""
    if size > _EXIF_LIMIT:
        raise ValueError(
            f"a {form} whose Exif block has {size:,} bytes, of which {_EXIF_LIMIT:,} may be"
        )


def _tiff(file: BinaryIO) -> tuple[int, int, int]:
    tags = _first_directory(file)
    if _WIDTH not in tags or _HEIGHT not in tags:
        raise ValueError("a TIFF that gives no size")
    _check_tile(tags)
    turn = tags.get(_ORIENTATION, 1)
    return tags[_WIDTH], tags[_HEIGHT], turn if 1 <= turn <= 8 else 1


def _check_tile(tags: dict[int, int]) -> None:
    """Raise where a tile is far larger than its image.

    nvImageCodec sets memory aside for a whole tile, and fills it, however small the image is. For
    strips it does not, whatever the rows, samples and bits are said to be.
    """
    width, height, samples = tags[_WIDTH], tags[_HEIGHT], tags.get(_SAMPLES, 1)
    across, down = tags.get(_TILE_WIDTH, width), tags.get(_TILE_HEIGHT, height)
    if _TILE_WIDTH not in tags and _TILE_HEIGHT not in tags:
        return
    # The sides of tiles are multiples of 16.
    around = -(-width // 16) * -(-height // 16) * 256
    if across * down * samples > max(_MOST_TILE, 4 * around):
        raise ValueError(
            f"a TIFF of {width:,} x {height:,} pixels whose tiles have {across:,} x {down:,}, "
            f"samples of each: {samples:,}"
        )


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


def _first_directory(file: BinaryIO) -> dict[int, int]:
    """Tag -> value of the entries of `_TAGS` in a TIFF's first directory.

    Those are one integer each, which nvImageCodec refuses to take from an entry of another type or
    count.
    """
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
    tags: dict[int, int] = {}
    for _ in range(min(count, 65535)):
        entry = file.read(struct.calcsize(entry_layout))
        tag, kind, number, value = struct.unpack(entry_layout, entry)
        if tag not in _TAGS:
            continue
        layout = {_SHORT: "H", _LONG: "I", _LONG8: "Q"}.get(kind)
        if layout is None or number != 1 or struct.calcsize(layout) > len(value):
            raise ValueError(f"a TIFF whose {_TAGS[tag]} is {number:,} values of type {kind}")
        (integer,) = struct.unpack_from(order + layout, value)
        if tags.setdefault(tag, integer) != integer:
            raise ValueError(f"a TIFF whose {_TAGS[tag]} is both {tags[tag]:,} and {integer:,}")
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
