"""Orientations of odd Exif blocks: those that nvImageCodec turns images by."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from gpufeed.decode.decoders import NvImageCodec
from gpufeed.decode.exif import orientation
from gpufeed.decode.headers import image_header, image_size
from tests.support.media import TURNS, picture

HEIGHT, WIDTH = 24, 40
IMAGE = picture(HEIGHT, WIDTH, seed=3)
EMPTY = b"MM\0*\0\0\0\x08\0\0\0\0\0\0"


def with_exif(kind: str, block: bytes) -> bytes:
    """An image with this block, without regard to what is in it."""
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


def as_turned(kind: str, content: bytes, decoder: NvImageCodec) -> int | None:
    """The orientation by which nvImageCodec turns an image; None where it refuses it."""
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
    drawn, decoder = np.random.default_rng(1), NvImageCodec()
    seen: set[int] = set()
    for _ in range(150):
        block = drawn_block(drawn)
        content = with_exif(kind, block)
        turned, read = (
            as_turned(kind, content, decoder),
            orientation(block, check_all=kind == "JPEG"),
        )
        if turned is None:
            assert kind == "PNG", block  # which it refuses where its two readers disagree
            continue
        assert turned == read, block
        assert image_size(content) == ((HEIGHT, WIDTH) if read > 4 else (WIDTH, HEIGHT))
        seen.add(turned)
    assert seen == set(range(1, 9))


def test_a_webp_with_the_mark_of_jpegs_is_not_turned() -> None:
    """As some writers have it; nvImageCodec takes no orientation from it."""
    block = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    decoder = NvImageCodec()
    for mark, value in ((b"", 6), (b"Exif\0\0", 1)):
        content = with_exif("WEBP", mark + block)
        assert as_turned("WEBP", content, decoder) == value
        assert image_size(content) == ((HEIGHT, WIDTH) if value == 6 else (WIDTH, HEIGHT))


def block(value: int) -> bytes:
    return b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0" + bytes([value]) + bytes(6)


def with_blocks(kind: str, *blocks: bytes) -> bytes:
    """An image with several Exif blocks."""
    data = with_exif(kind, EMPTY)
    if kind == "JPEG":
        start = data.index(b"\xff\xe1")
        end = start + 2 + int.from_bytes(data[start + 2 : start + 4], "big")
        parts = [b"Exif\0\0" + one for one in blocks]
        parts = [b"\xff\xe1" + struct.pack(">H", len(one) + 2) + one for one in parts]
        return data[:start] + b"".join(parts) + data[end:]
    if kind == "PNG":
        parts = [b"eXIf" + one for one in blocks]
        parts = [
            struct.pack(">I", len(one) - 4) + one + struct.pack(">I", zlib.crc32(one))
            for one in parts
        ]
        return data[:33] + b"".join(parts) + data[33 + 12 + len(EMPTY) :]
    parts = [b"EXIF" + struct.pack("<I", len(one)) + one for one in blocks]
    data = data[: data.index(b"EXIF")] + b"".join(parts)
    return data[:4] + struct.pack("<I", len(data) - 8) + data[8:]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_blocks_that_agree_count_and_others_are_refused(kind: str) -> None:
    decoder = NvImageCodec()
    for first in range(1, 9):
        content = with_blocks(kind, block(first), block(first))
        assert image_header(content).orientation == first
        assert as_turned(kind, content, decoder) == first
        for last in {*range(1, 9)} - {first}:
            with pytest.raises(ValueError, match=f"give the orientations {first} and {last}$"):
                image_header(with_blocks(kind, block(first), block(last)))


def test_a_webp_must_announce_its_exif_block() -> None:
    """In VP8X, its first chunk; nvImageCodec does not look for the block else."""
    content, decoder = with_exif("WEBP", block(6)), NvImageCodec()
    assert content[12:16] == b"VP8X"
    canvas, rest = content[12:30], content[30:]
    exif = rest.index(b"EXIF")
    silent = canvas[:8] + b"\0" + canvas[9:]
    for chunks, value in (
        (canvas + rest, 6),
        (canvas + rest[exif:] + rest[:exif], 6),
        (silent + rest, 1),
        (rest, 1),
        (rest[:exif] + canvas + rest[exif:], 1),
    ):
        changed = b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WEBP" + chunks
        assert image_header(changed).orientation == value
        assert as_turned("WEBP", changed, decoder) == value
    beyond = b"RIFF" + struct.pack("<I", 4 + 18 + exif) + b"WEBP" + canvas + rest
    assert image_header(beyond).orientation == 1
    assert as_turned("WEBP", beyond, decoder) != 6
    twice = (
        b"RIFF" + struct.pack("<I", 4 + 18 + len(content) - 12) + b"WEBP" + silent + content[12:]
    )
    with pytest.raises(ValueError, match="a WebP with two chunks VP8X"):
        image_header(twice)


def test_a_png_whose_exif_block_has_a_wrong_checksum_is_refused() -> None:
    content = bytearray(with_exif("PNG", block(6)))
    content[33 + 8 + len(block(6))] ^= 1
    with pytest.raises(ValueError, match="a PNG whose chunk eXIf has a wrong checksum"):
        image_header(content)


def tiff(*turns: tuple[int, int], big: bool = False) -> bytes:
    """A TIFF with these orientations, each (type, value)."""
    layouts = {3: "<HHIHxx", 4: "<HHII"}
    if big:
        layouts = {3: "<HHQH6x", 4: "<HHQI4x", 16: "<HHQQ"}
    given = [(256, 4, WIDTH), (257, 4, HEIGHT), (258, 3, 8), (259, 3, 1), (262, 3, 2)]
    start = (8 + 2 + 12 * (9 + len(turns)) + 4) if not big else 16 + 8 + 20 * (9 + len(turns)) + 8
    given += [(273, 4, start), *((274, *turn) for turn in turns), (277, 3, 3), (278, 4, HEIGHT)]
    given += [(279, 4, HEIGHT * WIDTH * 3)]
    entries = b"".join(struct.pack(layouts[kind], tag, kind, 1, v) for tag, kind, v in given)
    pixels = np.asarray(IMAGE).tobytes()
    if big:
        head = b"II+\0" + struct.pack("<HHQQ", 8, 0, 16, len(given))
        return head + entries + bytes(8) + pixels
    return b"II*\0" + struct.pack("<IH", 8, len(given)) + entries + bytes(4) + pixels


@pytest.mark.parametrize(
    ("kind", "big"), [(3, False), (4, False), (3, True), (4, True), (16, True)]
)
def test_a_tiff_gives_its_orientation_in_any_of_its_integers(kind: int, big: bool) -> None:
    decoder = NvImageCodec()
    upright = Image.fromarray(np.asarray(IMAGE))
    for value in (*range(10), 65535):
        content = tiff((kind, value), big=big)
        width, height, turn = image_header(content)[:3]
        assert turn == (value if 1 <= value <= 8 else 1)
        found = decoder.decode(content, (0, 0), (height, width))
        turned = upright.transpose(TURNS[turn]) if turn > 1 else upright
        assert found is not None
        assert np.array_equal(np.asarray(turned), found)


def test_a_tiff_of_several_orientations_is_refused_where_they_differ() -> None:
    content = tiff((3, 6), (4, 6))
    assert image_header(content)[:3] == (HEIGHT, WIDTH, 6)
    found = NvImageCodec().decode(content, (3, 2), (20, 9))
    turned = np.asarray(IMAGE.transpose(TURNS[6]))[3:23, 2:11]
    assert found is not None
    assert np.array_equal(turned, found)
    for first, last in ((6, 1), (1, 6), (6, 8)):
        with pytest.raises(ValueError, match=f"whose orientation is both {first} and {last}"):
            image_header(tiff((3, first), (3, last)))
