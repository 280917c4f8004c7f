"""Reads the size, orientation and depth of an image from its header.

Pillow is not used, for three reasons. The orientation must be the one that the decoders apply, and
Pillow's differs for unusual files: it accepts an XMP packet, and the EXIF chunk of a WebP whose
header does not announce one. Pillow decodes a whole PNG to find an `eXIf` chunk after the pixels.
And Pillow emits warnings, through the process-wide filters, for images that are merely large.

A file with several orientations that differ is rejected, since decoders disagree on which one
applies: nvImageCodec mostly takes the first Exif block, DALI the last. A file that would make a
decoder use disproportionate time or memory is rejected too, and so are depths that decoders
saturate, misread or scale each in its own way; 16 bits per channel are left to `check_depth`.
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
from gpufeed.decode.exif import orientation as exif_orientation
from gpufeed.source.base import Encoded

__all__ = [
    "DepthError",
    "ImageHeader",
    "check_depth",
    "check_scans",
    "image_header",
    "image_size",
    "max_file_bytes",
]

_WIDTH, _HEIGHT, _ORIENTATION, _SAMPLES = 0x0100, 0x0101, 0x0112, 0x0115
_TILE_WIDTH, _TILE_HEIGHT = 0x0142, 0x0143
_BITS, _COLOURS, _FORMAT = 0x0102, 0x0106, 0x0153
_TAGS = {
    _WIDTH: "width",
    _HEIGHT: "height",
    _ORIENTATION: "orientation",
    _SAMPLES: "number of samples",
    _TILE_WIDTH: "tile width",
    _TILE_HEIGHT: "tile height",
}
_LISTS = {_BITS: "number of bits", _COLOURS: "photometric interpretation", _FORMAT: "sample format"}
"""Tags that decide the depth; some have one value per sample."""
_BYTE, _SHORT, _LONG, _LONG8 = 1, 3, 4, 16
_LAYOUTS = {_BYTE: "B", _SHORT: "H", _LONG: "I", _LONG8: "Q"}
_UNSIGNED = {1, 4}
"""Sample formats: unsigned integers, and undefined, which counts as unsigned."""
_SAMPLES_OF = {2: "signed integers", 3: "floating-point numbers"}
_GRAY, _RGB = 1, 2
_BIT_FIELDS = (3, 6)
"""Compressions of a BMP that gives a mask for each channel."""
_MAX_SAMPLES = 1 << 10
_MAX_TILE_SAMPLES = 1 << 24
"""Samples per tile that are always allowed: 2,048 x 2,048 pixels of four samples."""
# Orientations 5 to 8 rotate the image by 90 degrees, which swaps its width and height.
_TRANSPOSING = (5, 6, 7, 8)
_IHDR_BYTES = 13
_MAX_PIXEL_BYTES = 16
"""Bytes per pixel of the largest format: four channels of 32 bits."""
_MAX_METADATA_BYTES = 1 << 24
"""Bytes that a file may have in addition to its pixels: previews, profiles, texts."""
_WEBP_PIXELS = (b"VP8 ", b"VP8L")
_WEBP_EXIF = 0x08
"""The flag in VP8X that announces an EXIF chunk; without it decoders ignore such a chunk."""
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL = (0xC0, 0xC1)
_BARE_MARKERS = frozenset(range(0xD0, 0xD9)) | {0x00, 0x01, 0xFF}
"""Bytes after 0xFF that begin no segment."""
_LENGTH = struct.Struct(">H")
_MAX_SIDE = (1 << 31) - 1
_MAX_PARTS = 1 << 16
"""Segments or chunks, including stray bytes between them, that are read."""
_MAX_EXIF_BYTES = 1 << 20
_MAX_EXIF_BLOCKS = 16
"""Exif blocks that are read: each may take a millisecond, and cameras write one."""
_START = 1 << 12
"""Bytes of a JPEG that are searched for its header first."""
_MAX_SCANS = 256
"""Scans of a JPEG. Encoders write about ten; this is the limit that nvImageCodec has in places."""


class DepthError(ValueError):
    """An image's values cannot be fed as 8 bits per channel, or not without `reduce_depth`."""


class ImageHeader(NamedTuple):
    """Size, orientation and depth of an image.

    Attributes:
        width: in pixels, with the EXIF orientation applied.
        height: in pixels, with the EXIF orientation applied.
        orientation: EXIF orientation, 1 to 8; 1 if there is none.
        bits: bits per channel: 16, or 8 or less.
        many_scans: whether it is a JPEG that may have more than one scan.
        decided_by: number of first bytes of the file that decide all of this; 0 if it is unknown.
        refused: why no decoder feeds its values as 8 bits per channel; "" if one does.
    """

    width: int
    height: int
    orientation: int = 1
    bits: int = 8
    many_scans: bool = False
    decided_by: int = 0
    refused: str = ""


File = str | Path | Encoded | BinaryIO


def image_size(file: File) -> tuple[int, int]:
    """Return the width and height of an image: see `image_header`.

    Raises:
        OSError: the file cannot be opened or read, or is not a regular file.
        ValueError: the format is not supported, or the header is damaged.
    """
    return image_header(file)[:2]


def image_header(file: File, *, any_depth: bool = False) -> ImageHeader:
    """Read an image's size, orientation and depth.

    Supports JPEG, PNG, WebP, TIFF, BMP and PNM, recognised by content and never by name. No pixels
    are decoded, and no memory is allocated for them.

    Args:
        file: a path, the bytes of a file, or a seekable binary file (read from its start).
        any_depth: whether the samples of a TIFF may be of any type and depth.

    Raises:
        OSError: the file cannot be opened or read, or is not a regular file.
        DepthError: the values are not integers of 16 bits, or 8 or less, or a decoder would not
            scale them correctly.
        ValueError: the format is not supported, or the header is damaged.
    """
    if isinstance(file, (bytes, bytearray, memoryview)):
        header = _header_of_bytes(file)
    elif isinstance(file, str | Path):
        with open_regular(file) as opened:
            header = _header(opened)
    else:
        header = _header(file)
    if header.refused and not any_depth:
        raise DepthError(header.refused)
    return header


Pixels = TypeVar("Pixels", int, npt.NDArray[np.int64])


def max_file_bytes(pixels: Pixels) -> Pixels:
    """Return the maximum length in bytes of the file of an image with this many pixels."""
    return pixels * _MAX_PIXEL_BYTES + _MAX_METADATA_BYTES


def check_depth(header: ImageHeader, *, reduce_depth: bool) -> None:
    """Raise if an image has 16 bits per channel that are not to be reduced to 8.

    Raises:
        DepthError: it does, and `reduce_depth` is False.
    """
    if header.bits > 8 and not reduce_depth:
        raise DepthError(
            f"{header.bits} bits per channel; to reduce them to 8, pass reduce_depth=True to what "
            "makes the manifest"
        )


def check_scans(content: Encoded, header: ImageHeader) -> None:
    """Raise if a JPEG has more scans than any encoder writes.

    A scan may be as short as ten bytes, but a decoder processes the whole image for each of them: a
    file of 200 KB could take minutes.

    Args:
        content: a whole file.
        header: its header.

    Raises:
        ValueError: there are too many scans.
    """
    if not header.many_scans:
        return
    data = np.frombuffer(content, np.uint8)
    # Compared as pairs of bytes: a tenth of a millisecond for a million bytes.
    found = [
        data[first : first + (len(data) - first) // 2 * 2].view("<u2") == 0xDAFF for first in (0, 1)
    ]
    if sum(map(np.count_nonzero, found)) <= _MAX_SCANS:
        return
    scans = 0
    for first, pairs in enumerate(found):
        markers = np.flatnonzero(pairs) * 2 + first
        markers = markers[markers < len(data) - 3]
        # A scan's header has 6 bytes plus 2 per component; other markers are in trailing data.
        scans += int(((data[markers + 2] == 0) & (data[markers + 3] <= 14)).sum())
    if scans > _MAX_SCANS:
        raise ValueError(f"a JPEG with {scans:,} scans; the limit is {_MAX_SCANS}")


def _header_of_bytes(content: Encoded) -> ImageHeader:
    if content[:2] == b"\xff\xd8":
        # A JPEG's header is at its start. Of all but bytes, BytesIO makes a copy.
        start = io.BytesIO(content[:_START])
        try:
            header = _header(start)
        except ValueError:
            pass
        else:
            if start.tell() < min(_START, len(content)):  # it never went back
                return header._replace(decided_by=start.tell())
    return _header(io.BytesIO(content))


def _header(file: BinaryIO) -> ImageHeader:
    file.seek(0)
    head = file.read(16)
    if not head:
        raise ValueError("the file is empty")
    for signature, reader in _READERS:
        if signature.match(head):
            try:
                header = reader(file)
            except struct.error:
                raise ValueError("the file ends within its header") from None
            width, height = header[:2]
            if not (0 < width <= _MAX_SIDE and 0 < height <= _MAX_SIDE):
                raise ValueError(f"its header gives the size {width}x{height}")
            if header.orientation in _TRANSPOSING:
                return header._replace(width=height, height=width)
            return header
    raise ValueError(f"not a JPEG, PNG, WebP, TIFF, BMP or PNM image; it begins with {head!r}")


def _unpack(file: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _jpeg(file: BinaryIO) -> ImageHeader:
    read, seek = file.read, file.seek
    seek(2)
    size: tuple[int, int] | None = None
    orientations: list[int] = []
    progressive, components, scan_components = False, 0, 0
    for _ in range(_MAX_PARTS):
        start = read(4)
        if not start:
            raise ValueError("the file ends before its first scan")
        if start[0] != 0xFF:  # decoders skip stray bytes between segments
            seek(1 - len(start), io.SEEK_CUR)
            continue
        marker = start[1] if len(start) > 1 else 0xFF
        if marker in _BARE_MARKERS:  # decoders also skip fill bytes before a marker
            seek((1 if marker == 0xFF else 2) - len(start), io.SEEK_CUR)
            continue
        if marker in (0xD9, 0xDA):
            scan_components = (start[2:] + read(1) + bytes(3))[2]
            break
        (length,) = _LENGTH.unpack_from(start, 2)
        if length < 2:
            raise ValueError(f"JPEG segment 0x{marker:02X} gives the length {length}")
        rest = length - 2
        if marker in _SOF and size is None:
            bits, height, width, components = _unpack(file, ">BHHB")
            if bits > 8:
                raise _unsupported_depth(f"a JPEG of {bits} bits per channel")
            size, progressive = (width, height), marker not in _SEQUENTIAL
            rest -= 6
        elif marker == 0xE1:
            block = read(rest)
            if block.startswith(b"Exif\0\0"):
                _add_block(orientations, "JPEG", block[6:], check_all=True)
            rest -= len(block)
        seek(rest, io.SEEK_CUR)
    else:
        raise ValueError(f"a JPEG with no scan after {_MAX_PARTS:,} segments or stray bytes")
    if size is None:
        raise ValueError("a JPEG without a frame header")
    many_scans = progressive or scan_components != components
    return ImageHeader(*size, _agreed(orientations, "JPEG"), many_scans=many_scans)


def _add_block(
    orientations: list[int], kind: str, block: bytes, *, check_all: bool = False
) -> None:
    if len(orientations) == _MAX_EXIF_BLOCKS:
        raise ValueError(f"a {kind} with more than {_MAX_EXIF_BLOCKS} Exif blocks")
    orientations.append(exif_orientation(block, check_all=check_all))


def _agreed(orientations: list[int], kind: str) -> int:
    """Return the orientation that all Exif blocks give, or 1 if there are none.

    A block without an orientation counts as 1, since a decoder that uses the block applies none.
    """
    if not orientations:
        return 1
    if len(set(orientations)) > 1:
        values = " and ".join(str(value) for value in dict.fromkeys(orientations))
        raise ValueError(f"a {kind} whose Exif blocks give the orientations {values}")
    return orientations[0]


def _png(file: BinaryIO) -> ImageHeader:
    length = _length(file)
    file.seek(8)
    size, name, width, height, bits = struct.unpack(">I4sIIB", file.read(17))
    if name != b"IHDR":
        raise ValueError("a PNG that does not begin with IHDR")
    if size != _IHDR_BYTES:
        raise ValueError(f"a PNG whose chunk IHDR gives the length {size:,}, not {_IHDR_BYTES}")
    if bits not in (1, 2, 4, 8, 16):
        raise ValueError(f"a PNG of {bits} bits per channel")
    orientations: list[int] = []
    file.seek(33)
    # eXIf may come before or after the pixels. The size of a truncated file is known nevertheless.
    for _ in range(_MAX_PARTS):
        start = file.read(8)
        if len(start) < 8:
            break
        size, name = struct.unpack(">I4s", start)
        end = file.tell() + size + 4
        # Pixels may be truncated, but their length must be plausible.
        if name != b"IDAT" or size > max_file_bytes(width * height):
            _check_end("PNG", name, size, end, length)
        if name == b"IEND":
            break
        if name == b"eXIf":
            _check_exif("PNG", size)
            block = file.read(size)
            # Only some decoders ignore a chunk with a wrong checksum.
            if file.read(4) != struct.pack(">I", zlib.crc32(name + block)):
                raise ValueError("a PNG whose chunk eXIf has a wrong checksum")
            _add_block(orientations, "PNG", block)
        file.seek(end)
    else:
        raise ValueError(f"a PNG with more than {_MAX_PARTS:,} chunks")
    return ImageHeader(width, height, _agreed(orientations, "PNG"), bits)


def _webp(file: BinaryIO) -> ImageHeader:
    length = _length(file)
    file.seek(4)
    (riff_bytes,) = _unpack(file, "<I")
    size: tuple[int, int] | None = None
    orientations: list[int] = []
    announced = False
    seen: set[bytes] = set()
    file.seek(12)
    for _ in range(_MAX_PARTS):
        offset = file.tell()
        start = file.read(8)
        if len(start) < 8:
            break
        name, chunk_bytes = struct.unpack("<4sI", start)
        end = offset + 8 + chunk_bytes
        # Chunks after the end of the RIFF are no part of the image, but nvImageCodec still
        # allocates memory for an EXIF chunk there.
        if offset >= 8 + riff_bytes:
            if name == b"EXIF":
                _check_end("WebP", name, chunk_bytes, end, length)
            if end > length:
                break
            file.seek(end + chunk_bytes % 2)
            continue
        if name not in _WEBP_PIXELS:  # pixels may be truncated
            _check_end("WebP", name, chunk_bytes, end, length)
        if name in (b"VP8X", b"VP8 ", b"VP8L"):
            # nvImageCodec ignores EXIF chunks if one of these is repeated or VP8X is not first.
            if name in seen:
                raise ValueError(f"a WebP with two chunks {name.decode().strip()}")
            seen.add(name)
        if name == b"VP8X" and size is None:
            canvas = file.read(10)
            if len(canvas) < 10:
                raise ValueError("the file ends within its header")
            announced = bool(canvas[0] & _WEBP_EXIF)
            size = (
                1 + int.from_bytes(canvas[4:7], "little"),
                1 + int.from_bytes(canvas[7:10], "little"),
            )
        elif name == b"VP8 " and size is None:
            _, width, height = struct.unpack("<6sHH", file.read(10))
            size = width & 0x3FFF, height & 0x3FFF
        elif name == b"VP8L" and size is None:
            _, bits = _unpack(file, "<BI")
            size = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        elif name == b"EXIF" and announced:
            _check_exif("WebP", chunk_bytes)
            _add_block(orientations, "WebP", file.read(chunk_bytes))
        file.seek(end + chunk_bytes % 2)
    else:
        raise ValueError(f"a WebP with more than {_MAX_PARTS:,} chunks")
    if size is None:
        raise ValueError("a WebP without an image")
    return ImageHeader(*size, _agreed(orientations, "WebP"))


def _length(file: BinaryIO) -> int:
    return file.seek(0, io.SEEK_END)


def _check_end(kind: str, chunk: bytes, size: int, end: int, length: int) -> None:
    """Raise if a chunk extends beyond the file: decoders allocate memory for most chunks."""
    if end > length:
        raise ValueError(
            f"a {kind} whose chunk {printable(chunk.decode('latin-1'))} gives the length {size:,}, "
            "beyond the end of the file"
        )


def _check_exif(kind: str, size: int) -> None:
    """Raise if an Exif block is too long to read for the sake of the orientation."""
    if size > _MAX_EXIF_BYTES:
        raise ValueError(
            f"a {kind} whose Exif block has {size:,} bytes; the limit is {_MAX_EXIF_BYTES:,}"
        )


def _tiff(file: BinaryIO) -> ImageHeader:
    tags, lists = _first_directory(file)
    if _WIDTH not in tags or _HEIGHT not in tags:
        raise ValueError("a TIFF without a size")
    _check_tile(tags)
    orientation = tags.get(_ORIENTATION, 1)
    orientation = orientation if 1 <= orientation <= 8 else 1
    size = tags[_WIDTH], tags[_HEIGHT]
    try:
        return ImageHeader(*size, orientation, _tiff_bits(lists))
    except DepthError as error:
        return ImageHeader(*size, orientation, max(lists[_BITS], default=1), refused=str(error))


def _tiff_bits(lists: dict[int, set[int]]) -> int:
    formats = lists[_FORMAT] - _UNSIGNED
    if formats:
        kind = _SAMPLES_OF.get(min(formats), f"sample format {min(formats)}")
        raise _unsupported_depth(f"a TIFF of {kind}")
    bits = max(lists[_BITS], default=1)
    if bits > 8 and lists[_BITS] != {16}:
        raise _unsupported_depth(f"a TIFF of {bits} bits per channel")
    if bits > 8 and lists[_COLOURS] not in ({_GRAY}, {_RGB}):
        raise _unsupported_depth(f"a TIFF of {bits} bits per channel that is neither gray nor RGB")
    return bits


def _check_tile(tags: dict[int, int]) -> None:
    """Raise if a tile is far larger than its image.

    nvImageCodec allocates and fills memory for a whole tile, however small the image is. It does
    not do so for strips, whatever rows, samples and bits the header gives.
    """
    width, height, samples = tags[_WIDTH], tags[_HEIGHT], tags.get(_SAMPLES, 1)
    across, down = tags.get(_TILE_WIDTH, width), tags.get(_TILE_HEIGHT, height)
    if _TILE_WIDTH not in tags and _TILE_HEIGHT not in tags:
        return
    # The sides of tiles are multiples of 16.
    padded = -(-width // 16) * -(-height // 16) * 256
    if across * down * samples > max(_MAX_TILE_SAMPLES, 4 * padded):
        raise ValueError(
            f"a TIFF of {width:,} x {height:,} pixels whose tiles have {across:,} x {down:,} "
            f"pixels with {samples:,} samples each"
        )


def _bmp(file: BinaryIO) -> ImageHeader:
    file.seek(14)
    (header,) = _unpack(file, "<I")
    width, height = _unpack(file, "<HH" if header == 12 else "<ii")
    if header >= 40:
        file.seek(28)
        bits, compression = _unpack(file, "<HI")
        file.seek(54)
        masks = _unpack(file, "<3I") if compression in _BIT_FIELDS else ()
        if bits > 32 or any(mask.bit_count() > 8 for mask in masks):
            raise _unsupported_depth(
                f"a BMP of {bits} bits per pixel, with more than 8 per channel"
            )
    return ImageHeader(width, abs(height))  # a negative height: the top row comes first


def _pnm(file: BinaryIO) -> ImageHeader:
    file.seek(0)
    head = file.read(4096)
    match = _PNM_HEADER.match(head)
    if match is None:
        raise ValueError("a PNM without a size")
    width, height = int(match[2]), int(match[3])
    if match[1] in b"14":
        return ImageHeader(width, height, bits=1)
    largest = _PNM_LARGEST.match(head, match.end())
    if largest is None:
        raise ValueError("a PNM without a largest value")
    if int(largest[1]) not in (255, 65535):
        raise _unsupported_depth(f"a PNM with the largest value {int(largest[1]):,}")
    return ImageHeader(width, height, bits=int(largest[1]).bit_length())


def _unsupported_depth(what: str) -> DepthError:
    return DepthError(f"{what}; convert it to 8 bits per channel")


def _first_directory(file: BinaryIO) -> tuple[dict[int, int], dict[int, set[int]]]:
    """Return the values of `_TAGS` and of `_LISTS`, by tag, from a TIFF's first directory.

    Each of `_TAGS` is a single integer; nvImageCodec rejects entries of another type or count.
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
    lists: dict[int, set[int]] = {tag: set() for tag in _LISTS}
    for _ in range(min(count, 65535)):
        entry = file.read(struct.calcsize(entry_layout))
        tag, value_type, number, value = struct.unpack(entry_layout, entry)
        layout = _LAYOUTS.get(value_type)
        if tag in _LISTS:
            if layout is None or not 0 < number <= _MAX_SAMPLES:
                raise _wrong_entry(_LISTS[tag], number, value_type)
            if lists[tag]:
                raise ValueError(f"a TIFF that gives its {_LISTS[tag]} twice")
            lists[tag].update(_values(file, order, f"{number}{layout}", value))
        if tag not in _TAGS:
            continue
        if (
            value_type == _BYTE
            or layout is None
            or number != 1
            or struct.calcsize(layout) > len(value)
        ):
            raise _wrong_entry(_TAGS[tag], number, value_type)
        (integer,) = struct.unpack_from(order + layout, value)
        if tags.setdefault(tag, integer) != integer:
            raise ValueError(f"a TIFF whose {_TAGS[tag]} is both {tags[tag]:,} and {integer:,}")
    return tags, lists


def _wrong_entry(name: str, number: int, value_type: int) -> ValueError:
    return ValueError(f"a TIFF whose {name} is {number:,} values of type {value_type}")


def _values(file: BinaryIO, order: str, layout: str, value: bytes) -> tuple[int, ...]:
    """Return the values of a TIFF's entry, which holds them or the place where they are."""
    if struct.calcsize(order + layout) <= len(value):
        return struct.unpack_from(order + layout, value)
    (offset,) = struct.unpack(order + ("I" if len(value) == 4 else "Q"), value)
    if offset >= 1 << 62:
        raise ValueError(f"a TIFF with values at byte {offset}")
    here = file.tell()
    file.seek(offset)
    values = _unpack(file, order + layout)
    file.seek(here)
    return values


_BLANK = rb"(?:\s|#[^\n\r]*[\n\r])+"
_PNM_HEADER = re.compile(rb"P([1-6])" + _BLANK + rb"(\d{1,9})" + _BLANK + rb"(\d{1,9})(?=\s)")
_PNM_LARGEST = re.compile(_BLANK + rb"(\d{1,9})\s")
_READERS = [
    (re.compile(rb"\xff\xd8\xff"), _jpeg),
    (re.compile(rb"\x89PNG\r\n\x1a\n"), _png),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), _webp),
    (re.compile(rb"II[*+]\x00|MM\x00[*+]"), _tiff),
    (re.compile(rb"BM"), _bmp),
    (re.compile(rb"P[1-6]\s"), _pnm),
]
