"""Where the values of a Parquet column are, within the pages of one row group.

pyarrow reads no less than a row group, and its writers put all images of one into one page. So the
pages' headers, which are in Thrift's compact protocol, are read here, and the lengths that precede
the values. An uncompressed value is then a range of the file, a compressed one a range of its page.
A page of Snappy is made of blocks of 64 KB that can be decompressed one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from gpufeed.records.embedded.layout import MAX_PAGE_BYTES, Layout
from gpufeed.source.chunks import CODECS, SNAPPY, Chunks

__all__ = ["UnknownLayoutError", "locate_images"]

Int64 = npt.NDArray[np.int64]
_Values = tuple[Int64, Int64]
"""The starts and lengths of values."""

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8
_HEADER_BYTES = 1 << 12
_MAX_HEADER_BYTES = 1 << 26
"""A header may hold the least and the greatest value, each a whole image."""
_MAX_BITS = 64
"""Of an integer in groups of seven bits."""
_SNAPPY_BLOCK = 1 << 16
_MAX_TAGS = 1 << 8
"""Elements of a Snappy block that are looked at. Images, being compressed, have a few."""


class UnknownLayoutError(ValueError):
    """A column is stored in a way in which its values cannot be located."""


def locate_images(file: BinaryIO, chunk: Any, column: Any) -> Layout:
    """Return where the values of a column are in one row group.

    Args:
        file: the Parquet file.
        chunk: pyarrow's metadata of the column in the row group.
        column: pyarrow's schema of the column.

    Raises:
        UnknownLayoutError: the column is a list, or its encoding is neither PLAIN nor a dictionary.
        ValueError: the file is damaged.
        OSError: it cannot be read.
    """
    name = chunk.compression.lower()
    codec = {"uncompressed": "none", "lz4": "lz4_raw"}.get(name, name)
    if codec not in CODECS or chunk.physical_type != "BYTE_ARRAY" or column.max_repetition_level:
        raise UnknownLayoutError(f"{chunk.physical_type} with {chunk.compression}")
    pages = _Pages(file, CODECS.index(codec))
    dictionary: _Values | None = None
    limit = chunk.num_values
    found: list[_Values] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    try:
        for header, offset in pages.headers(chunk):
            if header[1] == _DICTIONARY:
                page = pages.page(offset, header[3], header[2])
                dictionary = pages.values(page, 0, header[7][1])
            elif header[1] in (_DATA, _DATA_V2):
                found.append(_data_page(pages, header, offset, column, limit, dictionary))
    except (IndexError, KeyError, OverflowError, RecursionError, TypeError) as error:
        raise ValueError("a page of the image column is damaged") from error
    starts, lengths = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if len(starts) != limit:
        raise ValueError(f"{len(starts)} of {limit} images are in its pages")
    return Layout(starts, lengths, pages.chunks())


def _data_page(
    pages: _Pages,
    header: dict[int, Any],
    offset: int,
    column: Any,
    limit: int,
    dictionary: _Values | None,
) -> _Values:
    """Return the values of a data page, nulls included; at most `limit`."""
    size, total = header[3], header[2]
    levels: bytes | memoryview = b""
    deepest = column.max_definition_level
    if header[1] == _DATA_V2:
        about = header[8]
        count, encoding, before = about[1], about[4], about[5]  # its levels are not compressed
        levels = pages.raw(offset, before)
        packed = about.get(7, True)
        page = pages.page(offset + before, size - before, total - before, packed=packed)
        at = 0
    else:
        about = header[5]
        count, encoding = about[1], about[2]
        page, at = pages.page(offset, size, total), 0
        if deepest:
            if about[3] != _RLE:
                raise UnknownLayoutError(f"levels in encoding {about[3]}")
            at = 4 + int.from_bytes(page.get(0, 4), "little")
            levels = page.get(4, at - 4)
    if count > limit:
        raise ValueError(f"a page has {count} images of {limit} of its row group")
    present = np.ones(count, bool)
    if deepest:
        present = _hybrid(levels, deepest.bit_length(), count) == deepest
    number = int(present.sum())
    if encoding == _PLAIN:
        values = pages.values(page, at, number)
    elif encoding in (_PLAIN_DICTIONARY, _RLE_DICTIONARY) and dictionary is not None:
        indices = page.get(at, page.total - at)
        chosen = _hybrid(indices[1:], indices[0], number) if number else np.zeros(0, np.int64)
        values = dictionary[0][chosen], dictionary[1][chosen]
    else:
        raise UnknownLayoutError(f"values in encoding {encoding}")
    starts, lengths = np.zeros(count, np.int64), np.full(count, -1)
    starts[present], lengths[present] = values
    return starts, lengths


class _Page(NamedTuple):
    """The content of a page.

    Attributes:
        get: returns bytes of it, from a position, of a number.
        total: how many there are.
        offset: where it begins in the file, as it is stored.
        stored: the page as it is stored, if its column is compressed.
        codec: index into `CODECS`.
    """

    get: Callable[[int, int], bytes | memoryview]
    total: int
    offset: int
    stored: bytes = b""
    codec: int = 0


class _Pages:
    """Reads the pages of a column, and notes the chunks of those that hold values."""

    def __init__(self, file: BinaryIO, codec: int) -> None:
        self._file = file
        self._codec = codec
        self._blocks: list[tuple[int, int, int, int]] = []
        self._end = 0

    def raw(self, offset: int, size: int) -> bytes:
        """Return bytes of the file."""
        self._file.seek(offset)
        content = self._file.read(size)
        if len(content) < size:
            raise ValueError(f"the file ends at byte {offset + len(content):,}, within a page")
        return content

    def headers(self, chunk: Any) -> Iterator[tuple[dict[int, Any], int]]:
        """Yield the header of each page, and where its content begins."""
        offset = chunk.data_page_offset
        if chunk.dictionary_page_offset is not None:
            offset = min(offset, chunk.dictionary_page_offset)
        end = offset + chunk.total_compressed_size
        while offset < end:
            header, length = self._header(offset)
            if not 0 <= min(header[2], header[3]) <= max(header[2], header[3]) <= MAX_PAGE_BYTES:
                raise ValueError("a page of the image column is damaged")
            yield header, offset + length
            offset += length + header[3]

    def _header(self, offset: int, size: int = _HEADER_BYTES) -> tuple[dict[int, Any], int]:
        self._file.seek(offset)
        try:
            return _struct(self._file.read(size), 0)
        except IndexError:
            if size >= _MAX_HEADER_BYTES:
                raise
            return self._header(offset, size << 7)

    def page(self, offset: int, size: int, total: int, *, packed: bool = True) -> _Page:
        """Return a page of `size` bytes in the file, and `total` decompressed."""
        from pyarrow import Codec

        if not self._codec:
            return _Page(lambda at, length: self.raw(offset + at, length), size, offset)
        stored = self.raw(offset, size)
        content: bytes | memoryview = stored
        if packed:
            decompressed = Codec(CODECS[self._codec]).decompress(stored, total)
            content = memoryview(decompressed).cast("B")
        codec = self._codec if packed else 0
        return _Page(lambda at, length: content[at : at + length], total, offset, stored, codec)

    def values(self, page: _Page, at: int, count: int) -> _Values:
        """Return where the values of a page in PLAIN encoding are, from a position of it."""
        starts, lengths = [], []
        for _ in range(count):
            length = int.from_bytes(page.get(at, 4), "little")
            starts.append(at + 4)
            lengths.append(length)
            at += 4 + length
            if at > page.total:
                raise ValueError("a page of the image column is damaged")
        base = self._note(page) if self._codec else page.offset
        return base + np.array(starts, np.int64), np.array(lengths, np.int64)

    def _note(self, page: _Page) -> int:
        """Add a page to the chunks; return where it begins, all decompressed."""
        base = self._end
        bounds = _snappy_blocks(page.stored, page.total) if page.codec == SNAPPY else []
        # Without the length that Snappy begins with, so that blocks and whole pages are alike.
        first = _varint(page.stored, 0)[1] if page.codec == SNAPPY else 0
        bounds = bounds or [first, len(page.stored)]
        for number, (start, end) in enumerate(itertools.pairwise(bounds)):
            begin = base + number * _SNAPPY_BLOCK
            self._blocks.append((begin, page.offset + start, end - start, page.codec))
        self._end += page.total
        return base

    def chunks(self) -> Chunks | None:
        """Return the chunks, if the column is compressed."""
        if not self._codec:
            return None
        begins, offsets, sizes, codecs = np.array(self._blocks, np.int64).reshape(-1, 4).T
        return Chunks(np.append(begins, self._end), offsets, sizes, codecs.astype(np.uint8))


def _snappy_blocks(stored: bytes, total: int) -> list[int]:
    """Return where the blocks of a page begin and where the last one ends, as it is stored.

    Its writers compress 64 KB at a time, and refer to nothing before these. Returns nothing if that
    is not so, or if it would take long to find out.
    """
    length, at = _varint(stored, 0)
    if length != total:
        return []
    bounds, done, tags = [at], 0, 0
    end = min(_SNAPPY_BLOCK, total)
    while at < len(stored):
        tag, back = stored[at], 0
        kind, number = tag & 3, tag >> 2
        if kind == 0:
            extra = max(0, number - 59)
            if extra:
                number = int.from_bytes(stored[at + 1 : at + 1 + extra], "little")
            number += 1
            at += 1 + extra + number
        else:
            extra = (1, 2, 4)[kind - 1]
            back = int.from_bytes(stored[at + 1 : at + 1 + extra], "little")
            if kind == 1:
                back |= tag >> 5 << 8
                number &= 7
            number += 4 if kind == 1 else 1
            at += 1 + extra
        tags += 1
        if back > done - (len(bounds) - 1) * _SNAPPY_BLOCK:
            return []
        done += number
        if done > end or tags > _MAX_TAGS * len(bounds):
            return []
        if done == end:
            bounds.append(at)
            end = min(end + _SNAPPY_BLOCK, total)
    return bounds if done == total else []


def _hybrid(data: bytes | memoryview, width: int, count: int) -> Int64:
    """Decode integers of `width` bits that are stored as runs and as packed bits."""
    parts, at, left = [np.zeros(0, np.int64)], 0, count
    while left > 0 and width:
        head, at = _varint(data, at)
        if not head >> 1:
            raise ValueError("a page of the image column is damaged")
        if head & 1:
            size = (head >> 1) * width
            bits = np.unpackbits(np.frombuffer(data[at : at + size], np.uint8), bitorder="little")
            part = bits.reshape(-1, width) @ (1 << np.arange(width))
        else:
            size = (width + 7) // 8
            value = int.from_bytes(data[at : at + size], "little")
            part = np.full(min(head >> 1, left), value)
        at += size
        parts.append(part[:left])
        left -= len(parts[-1])
    return np.concatenate(parts) if width else np.zeros(count, np.int64)


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Decode a struct of Thrift's compact protocol: its fields by number, and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head >> 4:
            number += head >> 4
        else:
            value, at = _varint(data, at)
            number = _signed(value)
        if kind in (1, 2):
            fields[number] = kind == 1
        elif kind in (4, 5, 6):
            value, at = _varint(data, at)
            fields[number] = _signed(value)
        elif kind == 8:
            length, at = _varint(data, at)
            at += length
        elif kind == 12:
            fields[number], at = _struct(data, at)
        else:
            raise ValueError(f"a page's header has a field of type {kind}")
    return fields, at + 1


def _signed(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Decode an integer of groups of seven bits; return it, and where it ends."""
    value = 0
    for shift in range(0, _MAX_BITS, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("an integer in a page of the image column does not end")
