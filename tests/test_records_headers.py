"""Sizes from headers: those of Pillow's turned picture, and DALI's where the two differ."""

from __future__ import annotations

import io
import struct
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps, UnidentifiedImageError

from gpufeed.records.headers import picture_size
from nabirds_data import UNTIMED

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
        assert picture_size(file) == by_pillow(file), file
    assert {picture_size(file) for file in files if file.name[0] == "L"} == {(1800, 1200)}


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
            size = picture_size(file)
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
    assert picture_size(data) == by_pillow(io.BytesIO(data))
    assert picture_size(data) == ((20, 40) if orientation in (5, 6, 7, 8) else (40, 20))


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
    assert picture_size(encoded(kind, **options)) == (40, 20)


def test_the_forms_a_file_may_be_given_in(tmp_path: Path) -> None:
    data = encoded("JPEG")
    file = tmp_path / "x.png"  # the name tells nothing
    file.write_bytes(data)
    for given_as in (file, str(file), data, bytearray(data), memoryview(data), io.BytesIO(data)):
        assert picture_size(given_as) == (40, 20)
    opened = io.BytesIO(data)
    opened.seek(7)
    assert picture_size(opened) == (40, 20)


def exif_segment(data: bytes) -> tuple[int, bytes]:
    start = data.index(b"\xff\xe1")
    (length,) = struct.unpack(">H", data[start + 2 : start + 4])
    return start, data[start : start + 2 + length]


def test_of_two_exif_blocks_the_last_counts_as_it_does_for_dali() -> None:
    data = encoded("JPEG", exif=TURN)
    start, turned = exif_segment(data)
    upright = turned.replace(b"\x01\x12\0\x03\0\0\0\x01\0\x06", b"\x01\x12\0\x03\0\0\0\x01\0\x01")
    assert upright != turned
    rest = data[start + len(turned) :]
    assert picture_size(data[:start] + upright + turned + rest) == (20, 40)
    assert picture_size(data[:start] + turned + upright + rest) == (40, 20)


def test_exif_after_the_frame_header_counts() -> None:
    data = encoded("JPEG", exif=TURN)
    start, block = exif_segment(data)
    data = data[:start] + data[start + len(block) :]
    scan = data.index(b"\xff\xda")
    assert picture_size(data[:scan] + block + data[scan:]) == (20, 40)


def test_an_xmp_orientation_does_not_count_as_it_does_not_for_dali() -> None:
    xmp = (
        b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-'
        b'rdf-syntax-ns#"><rdf:Description rdf:about="" xmlns:tiff="http://ns.adobe.com/tiff/1.0/"'
        b' tiff:Orientation="6"/></rdf:RDF></x:xmpmeta>'
    )
    assert picture_size(encoded("JPEG", xmp=xmp)) == (40, 20)


def test_a_png_may_tell_its_orientation_after_its_pixels() -> None:
    data = encoded("PNG", exif=TURN)
    start = data.index(b"eXIf") - 4
    (length,) = struct.unpack(">I", data[start : start + 4])
    block = data[start : start + 12 + length]
    without = data[:start] + data[start + 12 + length :]
    assert picture_size(without) == (40, 20)
    assert picture_size(without[:-12] + block + without[-12:]) == (20, 40)


def test_a_huge_picture_has_a_size_and_takes_no_memory() -> None:
    data = bytearray(encoded("PNG"))
    data[16:24] = struct.pack(">II", 2_000_000, 1_000_000)
    assert picture_size(data) == (2_000_000, 1_000_000)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"GIF89a..........", "not a JPEG, PNG, WebP, TIFF, BMP or PNM picture; it begins with"),
        (encoded("JPEG")[:100], "the file ends"),
        (encoded("PNG")[:20], "the file ends within its header"),
        (b"\xff\xd8\xff\xd9", "a JPEG without a frame header"),
        (b"\xff\xd8\xff\xe0\x00\x01", "JPEG segment 0xE0 gives the length 1"),
        (b"RIFF\x04\x00\x00\x00WEBP", "a WebP without a picture"),
        (b"II*\x00\x08\x00\x00\x00\x00\x00", "a TIFF that gives no size"),
        (b"P6\nx", "a PNM that gives no size"),
        (b"BM" + bytes(12) + struct.pack("<Iii", 40, 0, 5), "its header gives the size 0x5"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        picture_size(data)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        picture_size(tmp_path / "none.jpg")


WHOLE = [encoded(kind, exif=TURN) for kind in ("JPEG", "PNG", "WEBP", "TIFF")] + [
    encoded("BMP"),
    encoded("PPM"),
    encoded("TIFF", big_tiff=True),
]


@UNTIMED
@given(st.sampled_from(WHOLE), st.data())
def test_damage_gives_a_size_or_a_value_error_and_nothing_else(
    whole: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for _ in range(data.draw(st.integers(0, 4))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        width, height = picture_size(damaged)
    except ValueError:
        return
    assert width > 0
    assert height > 0
