"""Reads the orientation from an Exif block exactly as nvImageCodec does.

nvImageCodec applies the orientation, so both must agree on damaged blocks too: an image whose
orientation the manifest does not know would show another window than requested. nvImageCodec takes
the value of the first orientation entry, whatever its type and count, and ignores the whole block
if an entry that it knows points outside the block.

`gpufeed.decode.headers` decides which blocks of a file count and requires them to agree. It also
reads the orientation of a TIFF, whose entry's type and count do matter.
"""

from __future__ import annotations

import struct

__all__ = ["orientation"]

_UPRIGHT = 1
_ORIENTATION = 0x0112
_TEXTS = frozenset((0x010E, 0x010F, 0x0110, 0x0131, 0x0132, 0x8298))
"""Description, make, model, software, date, copyright."""
_RATIONALS = {0x011A: 1, 0x011B: 1, 0x013E: 2, 0x013F: 6, 0x0211: 3, 0x0214: 6}
"""Number of values: resolutions, white point, chromaticities, coefficients, black and white."""


def orientation(block: bytes, *, check_all: bool) -> int:
    """Return the orientation, 1 to 8, that an Exif block gives; 1 if the block is damaged.

    Args:
        block: the block, a TIFF structure, from its byte order on.
        check_all: whether entries after the orientation are checked too, as in a JPEG.
    """
    try:
        value = _orientation(block, check_all)
    except struct.error:
        return _UPRIGHT
    return value if 1 <= value <= 8 else _UPRIGHT


def _orientation(block: bytes, check_all: bool) -> int:
    order = {b"II": "<", b"MM": ">"}.get(block[:2])
    if order is None:
        return _UPRIGHT

    def number(layout: str, offset: int) -> int:
        (value,) = struct.unpack_from(order + layout, block, offset)
        return int(value)

    start = number("I", 4)
    if number("H", 2) != 42:
        return _UPRIGHT
    value = None
    for entry in range(start + 2, start + 2 + 12 * number("H", start), 12):
        tag = number("H", entry)
        if tag == _ORIENTATION and value is None:
            value = number("H", entry + 8)
            if not check_all:
                break
        elif tag in _TEXTS:
            length = number("I", entry + 4)
            if length > 4 and number("I", entry + 8) + length > len(block):
                return _UPRIGHT
        elif tag in _RATIONALS and number("I", entry + 8) + 8 * _RATIONALS[tag] > len(block):
            return _UPRIGHT
    return _UPRIGHT if value is None else value
