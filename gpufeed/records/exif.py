"""The orientation that one Exif block gives, read as nvImageCodec reads a file's only block.

That is what turns the images, so of a damaged block too the two must think alike: an image that
is turned where its manifest does not know shows another window than the one asked for. It takes the
value of the first entry of this tag, whatever its type and count are said to be, and gives the
block up where an entry that it knows points out of it.

Which blocks of a file count, and that several must agree, is in `gpufeed.records.headers`. A TIFF's
own orientation is read there too, where the entry's type and count do matter.
"""

from __future__ import annotations

import struct

__all__ = ["orientation"]

_UPRIGHT = 1
_ORIENTATION = 0x0112
_TEXTS = frozenset((0x010E, 0x010F, 0x0110, 0x0131, 0x0132, 0x8298))
"""Description, make, model, software, date, copyright."""
_FRACTIONS = {0x011A: 1, 0x011B: 1, 0x013E: 2, 0x013F: 6, 0x0211: 3, 0x0214: 6}
"""How many of them: resolutions, white point, chromaticities, coefficients, black and white."""


def orientation(block: bytes, *, whole: bool) -> int:
    """Return the orientation, 1 to 8, of an Exif block, a TIFF; 1 where it is damaged.

    Args:
        block: from its byte order on.
        whole: whether entries after the orientation count too, as they do in a JPEG.
    """
    try:
        value = _orientation(block, whole)
    except struct.error:
        return _UPRIGHT
    return value if 1 <= value <= 8 else _UPRIGHT


def _orientation(block: bytes, whole: bool) -> int:
    order = {b"II": "<", b"MM": ">"}.get(block[:2])
    if order is None:
        return _UPRIGHT

    def number(layout: str, at: int) -> int:
        (found,) = struct.unpack_from(order + layout, block, at)
        return int(found)

    start = number("I", 4)
    if number("H", 2) != 42:
        return _UPRIGHT
    found = None
    for at in range(start + 2, start + 2 + 12 * number("H", start), 12):
        tag = number("H", at)
        if tag == _ORIENTATION and found is None:
            found = number("H", at + 8)
            if not whole:
                break
        elif tag in _TEXTS:
            length = number("I", at + 4)
            if length > 4 and number("I", at + 8) + length > len(block):
                return _UPRIGHT
        elif tag in _FRACTIONS and number("I", at + 8) + 8 * _FRACTIONS[tag] > len(block):
            return _UPRIGHT
    return _UPRIGHT if found is None else found
