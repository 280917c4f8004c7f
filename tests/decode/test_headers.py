"""Sizes from headers: those of Pillow's turned image, and DALI's where the two differ."""

from __future__ import annotations

import io
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps, UnidentifiedImageError

from gpufeed.decode.decoders import NvImageCodec
from gpufeed.decode.headers import check_scans, image_header, image_size
from tests.support.damage import pieces

TURN = Image.Exif()
TURN[0x0112] = 6


def encoded(kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 20), (10, 200, 30)).save(buffer, kind, **options)
    return buffer.getvalue()


def by_pillow(file: Path | io.BytesIO) -> tuple[int, int]:
    with Image.open(file) as image:
        return ImageOps.exif_transpose(image).size


def test_real_exif_orientations(testdata: Path) -> None:
    files = sorted((testdata / "odd_jpegs" / "exif_orientation").glob("*.jpg"))
    assert len(files) == 18
    for file in files:
        assert image_size(file) == by_pillow(file), file
    assert {image_size(file) for file in files if file.name[0] == "L"} == {(1800, 1200)}


def test_every_real_picture_that_pillow_can_open(testdata: Path) -> None:
    compared = 0
    for file in sorted(testdata.rglob("*")):
        if not file.is_file() or file.suffix.lower() not in (".jpg", ".jpeg"):
            continue
        try:
            with warnings.catch_warnings(), Image.open(file) as image:
                warnings.simplefilter("ignore")
                width, height = image.size
                turned = image.getexif().get(0x0112, 1) > 4
        except (OSError, UnidentifiedImageError, SyntaxError):
            continue
        try:
            size = image_size(file)
        except ValueError as error:
            pytest.fail(f"{file}: {error}")
        assert size == ((height, width) if turned else (width, height)), file
        compared += 1
    assert compared > 300


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_orientations_of_every_kind(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(kind, exif=exif)
    assert image_size(data) == by_pillow(io.BytesIO(data))
    assert image_size(data) == ((20, 40) if orientation in (5, 6, 7, 8) else (40, 20))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("JPEG", {"progressive": True}),
        ("WEBP", {"lossless": True}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("TIFF", {"big_tiff": True}),
        ("BMP", {}),
        ("PPM", {}),
    ],
)
def test_other_forms(kind: str, options: dict[str, object]) -> None:
    assert image_size(encoded(kind, **options)) == (40, 20)


def test_the_forms_a_file_may_be_given_in(tmp_path: Path) -> None:
    data = encoded("JPEG")
    file = tmp_path / "x.png"  # the name tells nothing
    file.write_bytes(data)
    for given_as in (file, str(file), data, bytearray(data), memoryview(data), io.BytesIO(data)):
        assert image_size(given_as) == (40, 20)
    opened = io.BytesIO(data)
    opened.seek(7)
    assert image_size(opened) == (40, 20)


def exif_segment(data: bytes) -> tuple[int, bytes]:
    start = data.index(b"\xff\xe1")
    (length,) = struct.unpack(">H", data[start + 2 : start + 4])
    return start, data[start : start + 2 + length]


def test_exif_blocks_that_disagree_are_refused() -> None:
    """Of two, nvImageCodec mostly takes the first and DALI the last."""
    data = encoded("JPEG", exif=TURN)
    start, turned = exif_segment(data)
    upright = turned.replace(b"\x01\x12\0\x03\0\0\0\x01\0\x06", b"\x01\x12\0\x03\0\0\0\x01\0\x01")
    assert upright != turned
    rest = data[start + len(turned) :]
    assert image_size(data[:start] + turned * 16 + rest) == (20, 40)
    assert image_size(data[:start] + upright * 2 + rest) == (40, 20)
    for blocks, words in (
        (upright + turned, "a JPEG whose Exif blocks give the orientations 1 and 6"),
        (turned + upright + turned, "a JPEG whose Exif blocks give the orientations 6 and 1"),
        (turned * 17, "a JPEG with more than 16 Exif blocks"),
    ):
        with pytest.raises(ValueError, match=words):
            image_size(data[:start] + blocks + rest)


def test_exif_after_the_frame_header_counts() -> None:
    data = encoded("JPEG", exif=TURN)
    start, block = exif_segment(data)
    data = data[:start] + data[start + len(block) :]
    scan = data.index(b"\xff\xda")
    assert image_size(data[:scan] + block + data[scan:]) == (20, 40)


def test_an_xmp_orientation_does_not_count_as_it_does_not_for_dali() -> None:
    xmp = (
        b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-'
        b'rdf-syntax-ns#"><rdf:Description rdf:about="" xmlns:tiff="http://ns.adobe.com/tiff/1.0/"'
        b' tiff:Orientation="6"/></rdf:RDF></x:xmpmeta>'
    )
    assert image_size(encoded("JPEG", xmp=xmp)) == (40, 20)


def test_a_png_may_tell_its_orientation_after_its_pixels() -> None:
    data = encoded("PNG", exif=TURN)
    start = data.index(b"eXIf") - 4
    (length,) = struct.unpack(">I", data[start : start + 4])
    block = data[start : start + 12 + length]
    without = data[:start] + data[start + 12 + length :]
    assert image_size(without) == (40, 20)
    assert image_size(without[:-12] + block + without[-12:]) == (20, 40)


def tiled(side: int, **others: int) -> bytes:
    """A gray TIFF of 40 x 20 with one tile; Pillow writes none."""
    entries = {256: 40, 257: 20, 258: 8, 259: 1, 262: 1, 277: 1, 322: side, 323: side, 325: 0}
    entries |= {int(tag[1:]): value for tag, value in others.items()}
    pixels = bytes(min(side, 512) ** 2)
    entries[324], entries[325] = 8 + 2 + 12 * (len(entries) + 1) + 4, len(pixels)
    listed = [
        struct.pack("<HHII", tag, 3 if tag in (258, 259, 262, 274, 277) else 4, 1, entries[tag])
        for tag in sorted(entries)
    ]
    directory = struct.pack("<H", len(listed)) + b"".join(listed) + bytes(4)
    return b"II*\0\x08\0\0\0" + directory + pixels


@pytest.mark.parametrize("side", [48, 128, 256, 512])
def test_a_tiled_tiff_is_read(side: int) -> None:
    data = tiled(side)
    assert image_size(data) == by_pillow(io.BytesIO(data)) == (40, 20)
    found = NvImageCodec().decode(data, (0, 0), (20, 40))
    assert found is not None
    assert found.shape == (20, 40, 3)


def test_a_tile_far_beyond_its_picture_is_refused() -> None:
    """For 65,520 x 65,520 pixels nvImageCodec fills 4 GB, in a file of a few hundred bytes."""
    for data, tile in (
        (tiled(65520), "65,520 x 65,520 pixels with 1 samples each"),
        (tiled(256, t323=65520, t277=3), "256 x 65,520 pixels with 3 samples each"),
        (tiled(2048, t277=32), "2,048 x 2,048 pixels with 32 samples each"),
        (tiled(4112), "4,112 x 4,112 pixels with 1 samples each"),
        (tiled(65520, t256=65520, t257=1), "65,520 x 65,520 pixels with 1 samples each"),
    ):
        with pytest.raises(ValueError, match=f"whose tiles have {tile}"):
            image_size(data)
    assert image_size(tiled(4096)) == (40, 20)
    assert image_size(tiled(16384, t256=16380, t257=16370, t277=4)) == (16380, 16370)


@pytest.mark.parametrize("tag", [256, 257, 274, 277, 322, 323])
def test_a_tiff_that_gives_a_tag_in_another_way_is_refused(tag: int) -> None:
    """Else a decoder might read another number than was judged; nvImageCodec reads none."""
    data = tiled(256, t274=3)
    at = next(at for at in range(10, 500, 12) if data[at : at + 2] == struct.pack("<H", tag)) + 2
    assert NvImageCodec().decode(data, (0, 0), (20, 40)) is not None
    for kind, count in ((1, 1), (8, 1), (16, 1), (4, 2), (4, 0)):
        other = data[:at] + struct.pack("<HI", kind, count) + data[at + 6 :]
        with pytest.raises(ValueError, match=f"is {count} values of type {kind}$"):
            image_size(other)
        assert NvImageCodec().decode(other, (0, 0), (20, 40)) is None or tag == 277
    entry = data[at - 2 : at + 10]
    twice = data[:8] + struct.pack("<H", 11) + entry + data[10:]
    assert image_size(twice) == (40, 20)
    twice = data[:8] + struct.pack("<H", 11) + entry[:8] + struct.pack("<I", 7) + data[10:]
    with pytest.raises(ValueError, match=r"a TIFF whose .* is both 7 and"):
        image_size(twice)


def test_a_huge_picture_has_a_size_and_takes_no_memory() -> None:
    data = bytearray(encoded("PNG"))
    data[16:24] = struct.pack(">II", 2_000_000, 1_000_000)
    assert image_size(data) == (2_000_000, 1_000_000)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"GIF89a..........", "not a JPEG, PNG, WebP, TIFF, BMP or PNM image; it begins with"),
        (encoded("JPEG")[:100], "the file ends"),
        (encoded("PNG")[:20], "the file ends within its header"),
        (encoded("PNG")[:24] + b"\x0c" + encoded("PNG")[25:], "a PNG of 12 bits per channel"),
        (b"\xff\xd8\xff\xd9", "a JPEG without a frame header"),
        (b"\xff\xd8\xff\xe0\x00\x01", "JPEG segment 0xE0 gives the length 1"),
        (b"RIFF\x04\x00\x00\x00WEBP", "a WebP without an image"),
        (b"II*\x00\x08\x00\x00\x00\x00\x00", "a TIFF without a size"),
        (b"P6\nx", "a PNM without a size"),
        (b"BM" + bytes(12) + struct.pack("<Iii28x", 40, 0, 5), "its header gives the size 0x5"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        image_size(data)


@pytest.mark.parametrize("length", [50_000_000, 2**31 - 1, 2**32 - 1])
@pytest.mark.parametrize(("kind", "chunk"), [("PNG", b"eXIf"), ("PNG", b"IEND"), ("WEBP", b"EXIF")])
def test_a_chunk_for_which_memory_would_be_set_aside_ends_with_the_file(
    kind: str, chunk: bytes, length: int
) -> None:
    """nvImageCodec fills as much memory as it gives for its length with zeros."""
    data = encoded(kind, exif=TURN)
    at = data.index(chunk)
    lying = data[: at - 4] + struct.pack(">I", length) + data[at:]
    if kind == "WEBP":
        lying = data[: at + 4] + struct.pack("<I", length) + data[at + 8 :]
    with pytest.raises(ValueError, match=f"chunk {chunk.decode()} gives the length {length:,}, be"):
        image_size(lying)


@pytest.mark.parametrize("chunk", [b"PLTE", b"tEXt", b"iCCP", b"\xff\x1b[m"])
def test_no_chunk_of_a_png_reaches_beyond_its_end(chunk: bytes) -> None:
    """For a palette's length too nvImageCodec sets gigabytes aside."""
    data = encoded("PNG")
    lying = data[:33] + struct.pack(">I", 2**31 - 1) + chunk + data[33:]
    with pytest.raises(
        ValueError, match="gives the length 2,147,483,647, beyond the end of"
    ) as met:
        image_size(lying)
    assert str(met.value).isprintable()
    longer = data[:8] + struct.pack(">I", 2**31 - 1) + data[12:]
    with pytest.raises(ValueError, match="whose chunk IHDR gives the length 2,147,483,647, not 13"):
        image_size(longer)


def test_pixels_of_a_png_may_be_cut_short_but_not_be_gigabytes() -> None:
    data = encoded("PNG")
    at = data.index(b"IDAT")
    for claimed in (1000, 1 << 24):
        assert image_size(data[: at - 4] + struct.pack(">I", claimed) + data[at:]) == (40, 20)
    lying = data[: at - 4] + struct.pack(">I", 1 << 25) + data[at:]
    with pytest.raises(ValueError, match="chunk IDAT gives the length 33,554,432, beyond the end"):
        image_size(lying)


def test_an_exif_chunk_behind_a_webps_own_end_is_in_the_file_too() -> None:
    """It does not count, but nvImageCodec makes room for it."""
    data = encoded("WEBP", exif=TURN)
    at = data.index(b"EXIF")
    short = data[:4] + struct.pack("<I", at - 8) + data[8:]
    assert image_size(short) == (40, 20)
    assert image_size(short + bytes(1000) + b"\xff" * 1000) == (40, 20)
    lying = short[: at + 4] + struct.pack("<I", 2**32 - 1) + short[at + 8 :]
    with pytest.raises(ValueError, match="chunk EXIF gives the length 4,294,967,295, beyond the"):
        image_size(lying)


def test_what_a_webp_says_of_itself_ends_with_the_file() -> None:
    data = encoded("WEBP", exif=TURN)
    at = data.index(b"VP8X")
    lying = data[: at + 4] + struct.pack("<I", 2**31 - 1) + data[at + 8 :]
    with pytest.raises(ValueError, match="chunk VP8X gives the length 2,147,483,647, be"):
        image_size(lying)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_an_exif_block_that_is_not_read_is_refused(kind: str) -> None:
    """nvImageCodec turns by it, whatever its length."""
    block = TURN.tobytes().removeprefix(b"Exif\0\0") + bytes(1 << 20)
    with pytest.raises(ValueError, match=r"Exif block has 1,048,\d+ bytes; the limit is 1,048,576"):
        image_size(encoded(kind, exif=block))


@pytest.mark.parametrize("side", [2**31, 2**32 - 1])
def test_sides_beyond_those_of_a_manifest_are_refused(side: int) -> None:
    data = bytearray(encoded("PNG"))
    data[16:24] = struct.pack(">II", side, 1)
    with pytest.raises(ValueError, match=f"its header gives the size {side}x1"):
        image_size(data)


class Counted(io.BytesIO):
    """A file that counts how often it is read."""

    reads = 0

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        return super().read(size)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xd8\xff" + bytes(1 << 21),
        b"\xff\xd8" + b"\xff" * (1 << 21),
        b"\xff\xd8\xff\xd0" + b"\xff\xd0" * (1 << 20),
        b"\xff\xd8" + b"\xff\xe2\x00\x02" * (1 << 19),
        b"\xff\xd8" + (b"\xff\xe1\xff\xffExif\0\0II*\0\x08\0\0\0\xff\xff" + bytes(65513)) * 32,
        encoded("PNG")[:33] + bytes(1 << 21),
        b"RIFF\xff\xff\xff\xffWEBP" + bytes(1 << 21),
        b"II*\0\x08\0\0\0\xff\xff" + bytes(1 << 21),
        b"II+\0\x08\0\0\0\x10" + bytes(7) + b"\xff" * 8 + bytes(1 << 21),
        b"P6 #" + b" " * (1 << 21),
    ],
    ids=["zeros", "fill", "bare", "empty", "EXIF", "PNG", "WebP", "TIFF", "BigTIFF", "PNM"],
)
def test_a_header_without_end_is_not_followed_to_its_end(data: bytes) -> None:
    file = Counted(data)
    with pytest.raises(ValueError, match="a "):
        image_size(file)
    assert file.reads < 200_000


def count_scans(content: bytes) -> None:
    check_scans(content, image_header(content))


def test_a_jpeg_of_hundreds_of_scans_is_refused() -> None:
    """Each is as much work as the image is large, and some take ten bytes."""
    whole = encoded("JPEG", progressive=True)
    start, end = [piece for piece in pieces(whole) if whole[piece[0] + 1] == 0xDA][-1]
    own = sum(whole[start + 1] == 0xDA for start, _ in pieces(whole))
    assert 3 < own < 20
    for scans, many in ((256, False), (257, True), (5000, True)):
        data = whole[:end] + whole[start:end] * (scans - own) + whole[end:]
        assert image_size(data) == (40, 20)
        # At even and at odd places, of which each has half the pairs of bytes.
        for content in (data, data[:2] + b"\xff\xe2\x00\x03x" + data[2:]):
            if many:
                with pytest.raises(
                    ValueError, match=f"a JPEG with {scans:,} scans; the limit is 256"
                ):
                    count_scans(content)
            else:
                count_scans(content)


def test_scans_of_sequential_jpegs_count_where_there_may_be_many() -> None:
    whole = encoded("JPEG")
    start = whole.index(b"\xff\xda")
    one = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00"
    count_scans(whole)
    with pytest.raises(ValueError, match="a JPEG with 300 scans"):
        count_scans(whole[:start] + one * 300 + b"\xff\xd9")
    # A decoder is done with one scan that has all components.
    count_scans(whole[:-2] + whole[start:-2] * 300 + b"\xff\xd9")


def test_what_follows_a_picture_is_not_taken_for_scans() -> None:
    """Phones put films behind their images."""
    film = np.random.default_rng(0).bytes(24 << 20)
    assert film.count(b"\xff\xda") > 256
    count_scans(encoded("JPEG", progressive=True) + film)
    for kind in ("PNG", "WEBP", "TIFF", "BMP", "PPM"):
        count_scans(encoded(kind) + b"\xff\xda\x00\x08" * 1000)


def test_every_real_picture_has_few_scans(testdata: Path) -> None:
    for file in sorted((testdata / "photos").rglob("*.jpg")):
        count_scans(file.read_bytes())


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        image_size(tmp_path / "none.jpg")


WHOLE = [encoded(kind, exif=TURN) for kind in ("JPEG", "PNG", "WEBP", "TIFF")] + [
    encoded("BMP"),
    encoded("PPM"),
    encoded("TIFF", big_tiff=True),
]


@given(st.sampled_from(WHOLE), st.data())
def test_damage_gives_a_size_or_a_value_error_and_nothing_else(
    whole: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for _ in range(data.draw(st.integers(0, 4))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        width, height = image_size(damaged)
    except ValueError:
        return
    assert width > 0
    assert height > 0
