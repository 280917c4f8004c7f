"""Images made harmful, in every way that bytes can be wrong.

File `number` of a seed is a function of the two, so that one that did harm can be made again.
"""

from __future__ import annotations

import io
import itertools
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

SIDES = (64, 400)
"""Of the longer side of an image that is damaged, in pixels."""

Draw = np.random.Generator
Other = Callable[[], bytes]


# ------------------------------------------------------------------------------ whole images


@dataclass(frozen=True)
class Form:
    """A kind of file.

    Attributes:
        kind: as Pillow names it.
        weight: how often it comes, beside the others.
        mode: Pillow's mode.
        options: of Pillow's `save`, besides those that are drawn.
    """

    kind: str
    weight: float
    mode: str = "RGB"
    options: tuple[tuple[str, object], ...] = ()


FORMS = {
    "JPEG baseline": Form("JPEG", 6),
    "JPEG progressive": Form("JPEG", 6, options=(("progressive", True),)),
    "JPEG gray": Form("JPEG", 2, "L"),
    "JPEG CMYK": Form("JPEG", 2, "CMYK"),
    "PNG": Form("PNG", 2),
    "PNG with palette": Form("PNG", 1, "P"),
    "WebP": Form("WEBP", 2),
    "WebP lossless": Form("WEBP", 1, options=(("lossless", True), ("method", 0))),
    "TIFF": Form("TIFF", 1),
    "TIFF compressed": Form("TIFF", 1, options=(("compression", "tiff_lzw"),)),
    "BMP": Form("BMP", 1),
    "PNM": Form("PPM", 1),
}
_WITH_EXIF = tuple(name for name, form in FORMS.items() if form.kind not in ("BMP", "PPM"))


def encode(image: Image.Image, form: Form, draw: Draw) -> bytes:
    """Encode an image; what else there is to choose is drawn."""
    options = dict(form.options)
    if form.kind == "JPEG":
        options["quality"] = int(draw.integers(40, 96))
        options["restart_marker_rows"] = int(draw.choice([0, 0, 1, 3]))
        if form.mode == "RGB":
            options["subsampling"] = int(draw.integers(3))
    if form.kind not in ("BMP", "PPM"):
        exif = Image.Exif()
        exif[0x0112] = int(draw.integers(1, 9))
        exif[0x010F] = "a maker of cameras"
        options["exif"] = exif
    buffer = io.BytesIO()
    image.convert(form.mode).save(buffer, form.kind, **options)
    return buffer.getvalue()


# ------------------------------------------------------------------------------ their parts


def pieces(content: bytes) -> list[tuple[int, int]]:
    """Where a file's segments or chunks begin and end; a file of no known kind is cut into 16."""
    try:
        if content.startswith(b"\xff\xd8"):
            return _of_jpeg(content)
        if content.startswith(b"\x89PNG"):
            return _of_chunks(content, 8, ">I", 0, 12)
        if content.startswith(b"RIFF"):
            return _of_chunks(content, 12, "<I", 4, 8)
    except (struct.error, IndexError):
        pass
    ends = np.linspace(0, len(content), 17).astype(int).tolist()
    return [(start, end) for start, end in itertools.pairwise(ends) if end > start]


def _of_jpeg(content: bytes) -> list[tuple[int, int]]:
    """Segments, each scan with its data."""
    found, at = [(0, 2)], 2
    while at < len(content) - 1:
        marker = content[at + 1]
        if marker == 0xD9:
            end = len(content)
        else:
            end = at + 2 + struct.unpack_from(">H", content, at + 2)[0]
        if marker == 0xDA:
            while content[end] != 0xFF or content[end + 1] == 0 or 0xD0 <= content[end + 1] <= 0xD7:
                end += 1
        found.append((at, end))
        at = end
    return found


def _of_chunks(
    content: bytes, first: int, layout: str, place: int, around: int
) -> list[tuple[int, int]]:
    found, at = [(0, first)], first
    while at < len(content):
        (length,) = struct.unpack_from(layout, content, at + place)
        padding = length % 2 if layout == "<I" else 0
        end = min(at + around + length + padding, len(content))
        found.append((at, end))
        at = end
    return found


def header_end(content: bytes) -> int:
    """Where a file's pixels begin."""
    for start, end in pieces(content):
        if content[start : start + 2] == b"\xff\xda":
            return start + 2 + int.from_bytes(content[start + 2 : start + 4], "big")
        if content[start + 4 : start + 8] == b"IDAT":
            return min(start + 20, end)
        if content[start : start + 4] in (b"VP8 ", b"VP8L"):
            return min(start + 20, end)
    if content.startswith(b"II"):
        return min(200, len(content))  # Pillow writes the directory first
    return min(54 if content.startswith(b"BM") else 16, len(content))


# ------------------------------------------------------------------------------ damage


def _put(content: bytes, at: int, new: bytes) -> bytes:
    return content[:at] + new + content[at + len(new) :]


def _flip(content: bytes, first: int, last: int, draw: Draw) -> bytes:
    damaged = bytearray(content)
    for place in draw.integers(first, last, size=int(draw.integers(1, 5))).tolist():
        damaged[place] ^= 1 << int(draw.integers(8))
    return bytes(damaged)


def _overwrite(content: bytes, first: int, last: int, draw: Draw) -> bytes:
    damaged = bytearray(content)
    for place in draw.integers(first, last, size=int(draw.integers(5, 61))).tolist():
        damaged[place] = int(draw.integers(256))
    return bytes(damaged)


def nothing(content: bytes, draw: Draw, other: Other) -> bytes:
    return content


def few_of_header(content: bytes, draw: Draw, other: Other) -> bytes:
    return _flip(content, 0, header_end(content), draw)


def many_of_header(content: bytes, draw: Draw, other: Other) -> bytes:
    return _overwrite(content, 2, header_end(content), draw)


def few_of_data(content: bytes, draw: Draw, other: Other) -> bytes:
    return _flip(content, header_end(content) - 1, len(content), draw)


def many_of_data(content: bytes, draw: Draw, other: Other) -> bytes:
    return _overwrite(content, header_end(content) - 1, len(content), draw)


def zeros(content: bytes, draw: Draw, other: Other) -> bytes:
    start = int(draw.integers(len(content)))
    length = int(np.exp(draw.uniform(1, np.log(len(content)))))
    return _put(content, start, bytes(min(length, len(content) - start)))


def cut_header(content: bytes, draw: Draw, other: Other) -> bytes:
    return content[: int(draw.integers(1, header_end(content)))]


def cut_data(content: bytes, draw: Draw, other: Other) -> bytes:
    return content[: int(draw.integers(header_end(content) - 1, len(content)))]


def shifted(content: bytes, draw: Draw, other: Other) -> bytes:
    at, count = int(draw.integers(len(content))), int(draw.integers(1, 17))
    if draw.random() < 0.5:
        return content[:at] + content[at + count :]
    return content[:at] + draw.bytes(count) + content[at:]


def joined(content: bytes, draw: Draw, other: Other) -> bytes:
    tail = other()
    return content[: int(draw.integers(1, len(content)))] + tail[int(draw.integers(len(tail))) :]


def _parts(content: bytes) -> list[bytes]:
    return [content[start:end] for start, end in pieces(content)]


def swapped(content: bytes, draw: Draw, other: Other) -> bytes:
    parts = _parts(content)
    one, two = draw.choice(np.arange(1, len(parts)), size=2, replace=False).tolist()
    parts[one], parts[two] = parts[two], parts[one]
    return b"".join(parts)


def repeated(content: bytes, draw: Draw, other: Other) -> bytes:
    parts = _parts(content)
    at = int(draw.integers(len(parts)))
    # Now and then thousands of them, which may cost a decoder more than their bytes look like.
    times = int(draw.integers(1, 4)) if draw.random() < 0.8 else int(draw.integers(300, 3000))
    times = max(min(times, (1 << 20) // len(parts[at])), 1)
    return b"".join([*parts[: at + 1], parts[at] * times, *parts[at + 1 :]])


def left_out(content: bytes, draw: Draw, other: Other) -> bytes:
    parts = _parts(content)
    del parts[int(draw.integers(1, len(parts)))]
    return b"".join(parts)


def with_checksums(content: bytes) -> bytes:
    """A PNG whose chunks have the checksums that they should, as who means harm would write it."""
    for start, end in pieces(content)[1:]:
        if end - start >= 12:
            right = zlib.crc32(content[start + 4 : end - 4])
            content = _put(content, end - 4, struct.pack(">I", right))
    return content


def lie_about_size(content: bytes, width: int, height: int) -> bytes:
    """Write another size into a whole image's header, and nothing else."""
    if content.startswith(b"\x89PNG"):
        return with_checksums(_put(content, 16, struct.pack(">II", width, height)))
    if content.startswith(b"BM"):
        return _put(content, 18, struct.pack("<ii", width, height))
    if content.startswith(b"P6"):
        kind, _, rest = content.partition(b"\n")
        return b"%s\n%d %d\n%s" % (kind, width, height, rest.partition(b"\n")[2])
    if content.startswith(b"II*"):
        return _put_tag(_put_tag(content, 0x0100, width), 0x0101, height)
    for start, _ in pieces(content):
        if content[start] == 0xFF and content[start + 1] in (0xC0, 0xC2):
            return _put(content, start + 5, struct.pack(">HH", height, width))
        if content[start : start + 4] == b"VP8X":
            sides = [(side - 1).to_bytes(3, "little") for side in (width, height)]
            return _put(content, start + 12, b"".join(sides))
    raise ValueError(f"no size is found in what begins with {content[:12]!r}")


def _put_tag(content: bytes, tag: int, value: int) -> bytes:
    """Write a number into a TIFF's first directory."""
    (at,) = struct.unpack_from("<I", content, 4)
    (count,) = struct.unpack_from("<H", content, at)
    for entry in range(at + 2, at + 2 + 12 * count, 12):
        if struct.unpack_from("<H", content, entry)[0] == tag:
            return _put(content, entry + 2, struct.pack("<HII", 4, 1, value))
    raise ValueError(f"the TIFF has no tag {tag}")


def other_size(content: bytes, draw: Draw, other: Other) -> bytes:
    """Each side anything up to 65,535, all orders of magnitude alike; now and then the most."""
    sides = np.exp(draw.uniform(0, np.log(65536), size=2)).astype(int).clip(1, 65535).tolist()
    if draw.random() < 0.1:
        sides[int(draw.integers(2))] = 65535
    if draw.random() < 0.05:
        sides = [65535, 65535]
    return lie_about_size(content, *sides)


_LENGTHS = [0, 1, 2, 3, 7, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF]


def other_lengths(content: bytes, draw: Draw, other: Other) -> bytes:
    """Of one to three segments; of a file without any, any numbers in its header."""
    for _ in range(int(draw.integers(1, 4))):
        parts = pieces(content)
        start, _end = parts[int(draw.integers(len(parts)))]
        length = int(draw.choice(_LENGTHS)) if draw.random() < 0.5 else int(draw.integers(1 << 17))
        if content.startswith(b"\xff\xd8"):
            content = _put(content, start + 2, struct.pack(">H", length & 0xFFFF))
        elif content.startswith(b"\x89PNG"):
            content = _put(content, start, struct.pack(">I", length))
        elif content.startswith(b"RIFF"):
            content = _put(content, start + 4, struct.pack("<I", length))
        else:
            at = int(draw.integers(2, header_end(content) - 4))
            content = _put(content, at, struct.pack("<I", length))
    return content


def other_exif(content: bytes, draw: Draw, other: Other) -> bytes:
    """Numbers of the Exif block, which is a TIFF, put wrong; or any bytes of it."""
    start = max(content.find(b"MM\0*"), content.find(b"II*\0"))
    if start < 0:
        raise ValueError("there is no Exif block")
    last = min(start + 60, len(content) - 4)
    for _ in range(int(draw.integers(1, 6))):
        at = int(draw.integers(start, last))
        if draw.random() < 0.6:
            at = start + (at - start) // 2 * 2
            content = _put(content, at, struct.pack(">H", int(draw.choice(_LENGTHS)) & 0xFFFF))
        else:
            content = _put(content, at, draw.bytes(1))
    return content


_SIGNATURES = [
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00",
    b"\xff\xd8\xff\xc0\x00\x11\x08\x00\x40\x00\x40\x03",
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x40\x00\x00\x00\x40\x08\x02\x00\x00\x00",
    b"RIFF\x00\x40\x00\x00WEBPVP8 ",
    b"RIFF\x00\x40\x00\x00WEBPVP8L",
    b"RIFF\x00\x40\x00\x00WEBPVP8X\x0a\x00\x00\x00",
    b"II*\x00\x08\x00\x00\x00\x0c\x00",
    b"MM\x00*\x00\x00\x00\x08\x00\x0c",
    b"II+\x00\x08\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00",
    b"BM\x00\x40\x00\x00\x00\x00\x00\x006\x00\x00\x00(\x00\x00\x00",
    b"P6\n64 64\n255\n",
    b"GIF89a",
    b"\x00\x00\x00\x0cjP  \r\n\x87\n",
]


def noise(content: bytes, draw: Draw, other: Other) -> bytes:
    signature = _SIGNATURES[int(draw.integers(len(_SIGNATURES)))]
    return signature + draw.bytes(int(draw.integers(20_000)))


def many_scans(content: bytes, draw: Draw, other: Other) -> bytes:
    """The last scan again and again: each is as much work as the image is large."""
    start, end = [piece for piece in pieces(content) if content[piece[0] + 1] == 0xDA][-1]
    times = min(int(draw.integers(100, 3000)), (2 << 20) // (end - start) + 1)
    return content[:end] + content[start:end] * times + content[end:]


@dataclass(frozen=True)
class Kind:
    """A way to damage a file.

    Attributes:
        weight: how often it comes, beside the others.
        damage: from a whole file, a generator and what gives another file, to the damaged one.
        forms: of what files.
    """

    weight: float
    damage: Callable[[bytes, Draw, Other], bytes]
    forms: tuple[str, ...] = tuple(FORMS)


KINDS = {
    "nothing": Kind(1, nothing),
    "a few bits of the header": Kind(3, few_of_header),
    "many bytes of the header": Kind(2, many_of_header),
    "a few bits of the data": Kind(3, few_of_data),
    "many bytes of the data": Kind(2, many_of_data),
    "a run of zeros": Kind(2, zeros),
    "cut in the header": Kind(1, cut_header),
    "cut in the data": Kind(2, cut_data),
    "bytes too many or too few": Kind(2, shifted),
    "two files joined": Kind(2, joined),
    "segments swapped": Kind(2, swapped),
    "segments repeated": Kind(2, repeated),
    "segments left out": Kind(2, left_out),
    "another size in the header": Kind(2, other_size),
    "other lengths of segments": Kind(3, other_lengths),
    "another EXIF": Kind(2, other_exif, _WITH_EXIF),
    "a signature and noise": Kind(2, noise),
    "hundreds of scans": Kind(0.5, many_scans, ("JPEG progressive",)),
}
"""By what was damaged."""


@dataclass(frozen=True)
class Damaged:
    """A damaged file.

    Attributes:
        content: its bytes.
        kind: of damage.
        form: of the file it was made from.
        size: (width, height) of that one, its EXIF orientation applied.
    """

    content: bytes
    kind: str
    form: str
    size: tuple[int, int]


class Damager:
    """Makes damaged files of shrunk photos.

    Args:
        photos: the photos' files.
        seed: of all that is drawn.
    """

    def __init__(self, photos: Sequence[Path], seed: int) -> None:
        self._photos = photos
        self._seed = seed
        self._small = cache(self._shrunk)

    def _shrunk(self, number: int) -> Image.Image:
        with Image.open(self._photos[number]) as image:
            image.draft("RGB", (SIDES[1], SIDES[1]))
            image.thumbnail((SIDES[1], SIDES[1]))
            return image.convert("RGB")

    def _whole(self, form: str, draw: Draw) -> tuple[bytes, tuple[int, int]]:
        image = self._small(int(draw.integers(len(self._photos)))).copy()
        longest = int(draw.integers(SIDES[0], SIDES[1] + 1))
        image.thumbnail((longest, longest))
        content = encode(image, FORMS[form], draw)
        with Image.open(io.BytesIO(content)) as again:
            turned = again.getexif().get(0x0112, 1) > 4
        return content, image.size[::-1] if turned else image.size

    def make(self, number: int) -> Damaged:
        """Make file `number`."""
        draw = np.random.default_rng([self._seed, number])
        name = _drawn({name: kind.weight for name, kind in KINDS.items()}, draw)
        weights = {form: FORMS[form].weight for form in KINDS[name].forms}
        form = _drawn(weights, draw)
        content, size = self._whole(form, draw)

        def other() -> bytes:
            return self._whole(_drawn(weights, draw), draw)[0]

        damaged = KINDS[name].damage(content, draw, other)
        if damaged.startswith(b"\x89PNG") and draw.random() < 0.5:
            damaged = with_checksums(damaged)
        return Damaged(damaged, name, form, size)


def _drawn(weights: Mapping[str, float], draw: Draw) -> str:
    shares = np.array([*weights.values()], dtype=float)
    return str(draw.choice(list(weights), p=shares / shares.sum()))
