"""Orientations of damaged Exif blocks: those that nvImageCodec turns pictures by."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from gpufeed.engine.decode import WindowDecoder
from gpufeed.records.exif import orientation
from gpufeed.records.headers import picture_size
from media import picture

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
HEIGHT, WIDTH = 24, 40
IMAGE = picture(HEIGHT, WIDTH, seed=3)
EMPTY = b"MM\0*\0\0\0\x08\0\0\0\0\0\0"


def with_exif(kind: str, block: bytes) -> bytes:
    """A picture with this block, without regard to what is in it."""
    buffer = io.BytesIO()
    if kind == "JPEG":
        IMAGE.save(buffer, "JPEG", quality=95, exif=b"Exif\0\0" + block)
        return buffer.getvalue()
    if kind == "PNG":
        IMAGE.save(buffer, "PNG")
        data, chunk = buffer.getvalue(), b"eXIf" + block
        chunk = struct.pack(">I", len(block)) + chunk + struct.pack(">I", zlib.crc32(chunk))
        return data[:33] + chunk + data[33:]
    IMAGE.save(buffer, "WEBP", lossless=True, exif=EMPTY)
    data = buffer.getvalue()
    data = data[: data.index(b"EXIF")] + b"EXIF" + struct.pack("<I", len(block)) + block
    data += bytes(len(block) % 2)
    return data[:4] + struct.pack("<I", len(data) - 8) + data[8:]


def as_turned(kind: str, content: bytes, decoder: WindowDecoder) -> int | None:
    """The orientation by which nvImageCodec turns a picture; None where it refuses it."""
    plain = decoder.decode(with_exif(kind, EMPTY), (0, 0), (HEIGHT, WIDTH))
    assert plain is not None
    upright = Image.fromarray(plain.copy())
    for shape in ((HEIGHT, WIDTH), (WIDTH, HEIGHT)):
        found = decoder.decode(content, (0, 0), shape)
        if found is None:
            continue
        for value in range(1, 9):
            turned = upright.transpose(TURNS[value]) if value > 1 else upright
            if np.array_equal(np.asarray(turned), found):
                return value
    return None


KNOWN = [0x010E, 0x010F, 0x0110, 0x011A, 0x011B, 0x0131, 0x0132, 0x013E, 0x013F, 0x0211, 0x8298]
OTHERS = [0x0128, 0x0213, 0x0214, 0x8769, 0x1234, 0x013C]


def drawn_block(drawn: np.random.Generator) -> bytes:
    """An Exif block of which any number may be wrong."""

    def one(*values: int) -> int:
        return int(drawn.choice(values))

    order = str(drawn.choice(["<", ">"]))
    count, padding = one(0, 1, 2, 3, 4, 5), one(0, 0, 0, 1, 7)
    mark = 42 if drawn.random() < 0.95 else one(0, 43, 300)
    start = 8 + padding if drawn.random() < 0.93 else one(0, 1, 4, 9, 100, 0x7FFFFFFF)
    said = count if drawn.random() < 0.9 else one(0, count + 1, count + 2, 65535)
    block = b"II" if order == "<" else b"MM"
    block += (
        struct.pack(order + "HI", mark, start) + bytes(padding) + struct.pack(order + "H", said)
    )
    for _ in range(count):
        tag = one(*[0x0112] * 8, *KNOWN, *OTHERS)
        kind, length = (
            one(3, 3, 3, 2, 4, 5, 7, 0, 99, 1),
            one(1, 1, 1, 0, 2, 5, 20, 70_000, 2**32 - 1),
        )
        if drawn.random() < 0.7:
            value = struct.pack(order + "HH", one(1, 2, 3, 4, 5, 6, 7, 8, 0, 9, 300), 0)
        else:
            value = struct.pack(order + "I", one(0, 8, 20, 60, 100, 120, 200, 70_000, 2**32 - 16))
        block += struct.pack(order + "HHI", tag, kind, length) + value
    block += bytes(one(0, 1, 2, 3, 4, 4, 4, 8, 40))
    return block[: int(drawn.integers(len(block) + 1))] if drawn.random() < 0.2 else block


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_damaged_block_is_read_as_nvimagecodec_reads_it(kind: str) -> None:
    drawn, decoder = np.random.default_rng(1), WindowDecoder()
    seen: set[int] = set()
    for _ in range(150):
        block = drawn_block(drawn)
        content = with_exif(kind, block)
        turned, read = as_turned(kind, content, decoder), orientation(block, whole=kind == "JPEG")
        if turned is None:
            assert kind == "PNG", block  # which it refuses where its two readers disagree
            continue
        assert turned == read, block
        assert picture_size(content) == ((HEIGHT, WIDTH) if read > 4 else (WIDTH, HEIGHT))
        seen.add(turned)
    assert seen == set(range(1, 9))


def test_a_webp_with_the_mark_of_jpegs_is_not_turned() -> None:
    """As some writers have it; nvImageCodec takes no orientation from it."""
    block = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    decoder = WindowDecoder()
    for mark, value in ((b"", 6), (b"Exif\0\0", 1)):
        content = with_exif("WEBP", mark + block)
        assert as_turned("WEBP", content, decoder) == value
        assert picture_size(content) == ((HEIGHT, WIDTH) if value == 6 else (WIDTH, HEIGHT))
