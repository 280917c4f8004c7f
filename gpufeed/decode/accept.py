"""Accepts images: their headers are checked, and 16 bits per channel reduced to 8."""

from __future__ import annotations

import secrets
import threading

import numpy as np

from gpufeed.decode.decoders import AllBits
from gpufeed.decode.diagnose import Name, check_header, check_size, undecodable, unreadable
from gpufeed.decode.headers import max_file_bytes
from gpufeed.source.base import Content, Encoded, Pixels, as_image, ppm_header

__all__ = ["Acceptor", "as_ppm"]

_TO_8_BITS = ((np.arange(1 << 16) + 128) // 257).astype(np.uint8)
"""round(value / 257), which maps 0 to 0 and 65,535 to 255."""
_ROWS = 64
"""Rows reduced at a time, since NumPy needs eight bytes for each of their values."""


class Acceptor:
    """Checks images before they are decoded; callable from any thread.

    nvImageCodec cuts 16 bits of a PNG off and rounds those of a TIFF, and DALI rounds both. So such
    an image is reduced here, by one formula, and encoded again without compression.

    The header of a JPEG is parsed once, if it is within the first 4 KB. Later the image is accepted
    if a hash of the bytes that decided what is in its header is the same, so a file that has
    changed is checked again. The hash is over secret bytes too, so nobody can make two files that
    have the same.

    Args:
        name: from a record key to the name of its image in errors.
        reduce_depth: as for `Manifest`.
        remembered: the number of records whose headers are remembered, the first of the manifest.
    """

    def __init__(self, name: Name, *, reduce_depth: bool, remembered: int = 0) -> None:
        self._name = name
        self._reduce_depth = reduce_depth
        self._local = threading.local()
        self._secret = secrets.token_bytes(16)
        # Of each record's accepted header: how many bytes decide it, or 0, and their hash.
        # Views, as indexing them is faster; pages of zeros take no memory until they are written.
        self._lengths = np.zeros(remembered, np.uint16).data
        self._hashes = np.zeros(remembered, np.int64).data

    def _hash(self, content: Encoded, length: int, expected: tuple[int, int]) -> int:
        return hash((expected, self._secret + content[:length]))

    def accept(self, content: Content, expected: tuple[int, int], record_key: int) -> Content:
        """Check an image.

        Args:
            content: the encoded image, or its pixels.
            expected: (height, width) in the manifest.
            record_key: the image's record.

        Returns:
            The encoded image to decode, with 8 bits or less per channel, or the pixels.

        Raises:
            DecodeError: see `check_header`; or the depth is to be reduced and it cannot be decoded.
        """
        if isinstance(content, np.ndarray):
            if isinstance(image := as_image(content), OSError):
                raise unreadable(image, record_key, self._name)
            check_size(content.shape[:2], expected, record_key, self._name)
            return content
        remembers = record_key < len(self._lengths)
        known = remembers and self._lengths[record_key]
        if (
            known
            and len(content) <= max_file_bytes(expected[0] * expected[1])
            and self._hash(content, known, expected) == self._hashes[record_key]
        ):
            return content
        header = check_header(
            content, expected, record_key, self._name, reduce_depth=self._reduce_depth
        )
        if remembers and header.decided_by and not header.many_scans:
            self._hashes[record_key] = self._hash(content, header.decided_by, expected)
            self._lengths[record_key] = header.decided_by
        if header.bits <= 8:
            return content
        reduced = self._reduce(content, expected)
        if reduced is None:
            raise undecodable(content, record_key, self._name)
        return reduced

    def _reduce(self, content: Encoded, size: tuple[int, int]) -> bytearray | None:
        """Return a PPM of the whole image, upright, or None if it cannot be decoded."""
        if not hasattr(self._local, "decoder"):
            self._local.decoder = AllBits()
        deep = self._local.decoder.decode(content)
        if deep is None or deep.dtype != np.uint16 or deep.shape != (*size, 3):
            return None
        encoded, pixels = _empty_ppm(*size)
        for top in range(0, len(deep), _ROWS):
            pixels[top : top + _ROWS] = _TO_8_BITS[deep[top : top + _ROWS]]
        return encoded


def as_ppm(content: Content) -> Encoded:
    """Return an image encoded: of pixels, a PPM, which every decoder takes."""
    if not isinstance(content, np.ndarray):
        return content
    encoded, pixels = _empty_ppm(*content.shape[:2])
    pixels[...] = content
    return encoded


def _empty_ppm(height: int, width: int) -> tuple[bytearray, Pixels]:
    """Return a PPM and the pixels in it, uint8 (height, width, 3), to be written."""
    head = ppm_header(height, width)
    encoded = bytearray(len(head) + height * width * 3)
    encoded[: len(head)] = head
    return encoded, np.frombuffer(encoded, np.uint8, offset=len(head)).reshape(height, width, 3)
