"""Images of more than 8 bits per channel, which Pillow cannot write in colour."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
"""(height, width, channels)."""


def ramp(height: int = 48, width: int = 64) -> Values:
    """uint16 (height, width, 3), from 0 to 65,535, with all values around those that round up."""
    drawn = np.random.default_rng(3).integers(0, 1 << 16, (height, width, 3))
    edges = (np.arange(256)[:, None] * 257 + [-129, -128, 0, 128, 129]).clip(0, 65535)
    drawn.ravel()[: edges.size] = edges.ravel()
    return drawn.astype(np.uint16)


def png(values: Values, exif: bytes = b"") -> bytes:
    """A PNG of 16 bits per channel."""

    def chunk(name: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + checksum

    height, width, channels = values.shape
    colours = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, colours, 0, 0, 0)),
            chunk(b"eXIf", exif) if exif else b"",
            chunk(b"IDAT", zlib.compress(rows)),
            chunk(b"IEND", b""),
        ]
    )


def tiff(
    values: Values,
    sample_format: int | None = 1,
    *,
    bits: int | None = None,
    order: str = "<",
    colours: int | None = None,
    orientation: int = 1,
) -> bytes:
    """An uncompressed TIFF of the values as they are.

    Args:
        values: of the dtype that goes with `sample_format`.
        sample_format: 1 unsigned, 2 signed, 3 floating-point, 4 undefined; None for no such entry.
        bits: bits per channel to give, where these are not those of the dtype.
        order: "<" or ">", the byte order.
        colours: the photometric interpretation; by default RGB, or gray where 0 is black.
        orientation: as in Exif.
    """
    height, width, channels = values.shape
    pixels = values.astype(values.dtype.newbyteorder(order)).tobytes()
    bits = values.dtype.itemsize * 8 if bits is None else bits
    lists = {258: [bits] * channels}
    if sample_format is not None:
        lists[339] = [sample_format] * channels
    numbers = {256: width, 257: height, 259: 1, 262: colours or (2 if channels >= 3 else 1)}
    numbers |= {274: orientation, 277: channels, 278: height, 279: len(pixels)}
    if colours == 0:
        numbers[262] = 0
    start = 8 + 2 + 12 * (len(numbers) + len(lists) + 1) + 4
    behind = b""
    entries = {}
    for tag, listed in lists.items():
        packed = struct.pack(f"{order}{channels}H", *listed)
        if len(packed) > 4:
            behind += packed
            packed = struct.pack(order + "I", start + len(behind) - len(packed))
        entries[tag] = struct.pack(order + "HHI", tag, 3, channels) + packed.ljust(4, b"\0")
    numbers[273] = start + len(behind)
    for tag, number in numbers.items():
        short = tag in (259, 262, 274, 277)
        value = struct.pack(order + ("HH" if short else "I"), *([number, 0] if short else [number]))
        entries[tag] = struct.pack(order + "HHI", tag, 3 if short else 4, 1) + value
    directory = struct.pack(order + "H", len(entries)) + b"".join(
        entries[tag] for tag in sorted(entries)
    )
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    return head + directory + bytes(4) + behind + pixels


def pnm(values: Values, largest: int = 65535) -> bytes:
    """A PPM or PGM with this largest value."""
    height, width, channels = values.shape
    kind = b"P6" if channels == 3 else b"P5"
    dtype = ">u2" if largest > 255 else "u1"
    head = b"%s %d %d\n# a comment\n%d\n" % (kind, width, height, largest)
    return head + values.astype(dtype).tobytes()
