"""Parquet files whose numbers lie, written by hand: of some hundred bytes, and fatal to readers.

The format's footer and page headers are structures of Thrift's compact protocol.
"""

from __future__ import annotations

import struct

_KINDS = {"i32": 5, "i64": 6, "binary": 8, "list": 9, "struct": 12}
_INT32, _BYTE_ARRAY, _FIXED = 1, 6, 7
_REQUIRED, _OPTIONAL = 0, 1
_PLAIN, _RLE, _DICTIONARY = 0, 3, 8
_TEXT = 0


def varint(value: int) -> bytes:
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def zigzag(value: int) -> bytes:
    return varint((value << 1) ^ (value >> 63))


def binary(value: bytes) -> bytes:
    return varint(len(value)) + value


def listed(kind: int, values: list[bytes]) -> bytes:
    return bytes([0xF0 | kind]) + varint(len(values)) + b"".join(values)


def struct_of(**fields: tuple[str, bytes | int | None]) -> bytes:
    """A structure of fields named f and their number, in ascending order; None leaves one out."""
    out, last = b"", 0
    for name, (kind, value) in fields.items():
        if value is None:
            continue
        number = int(name[1:])
        content = zigzag(value) if isinstance(value, int) else value
        out += bytes([(number - last) << 4 | _KINDS[kind]]) + content
        last = number
    return out + b"\0"


def element(
    name: str,
    kind: int | None = None,
    *,
    length: int | None = None,
    repetition: int = _REQUIRED,
    children: int | None = None,
    converted: int | None = None,
) -> bytes:
    """One of a schema: a column, or a group of so many."""
    return struct_of(
        f1=("i32", kind),
        f2=("i32", length),
        f3=("i32", repetition),
        f4=("binary", binary(name.encode())),
        f5=("i32", children),
        f6=("i32", converted),
    )


def page(kind: int, size: int, field: int, header: bytes) -> bytes:
    """A page's header; `field` 5 is of data pages, 7 of dictionaries."""
    return struct_of(
        f1=("i32", kind), f2=("i32", size), f3=("i32", size), **{f"f{field}": ("struct", header)}
    )


def data_page(content: bytes, count: int, encoding: int) -> bytes:
    header = struct_of(f1=("i32", count), f2=("i32", encoding), f3=("i32", _RLE), f4=("i32", _RLE))
    return page(0, len(content), 5, header) + content


def column(kind: int, count: int, length: int, dictionary: int | None = None) -> bytes:
    """A chunk that begins at byte 4; `dictionary` is how long that is, before the data."""
    about = struct_of(
        f1=("i32", kind),
        f2=("list", listed(5, [zigzag(_PLAIN), zigzag(_RLE), zigzag(_DICTIONARY)])),
        f3=("list", listed(8, [binary(b"path")])),
        f4=("i32", 0),
        f5=("i64", count),
        f6=("i64", length),
        f7=("i64", length),
        f9=("i64", 4 + (dictionary or 0)),
        f11=("i64", None if dictionary is None else 4),
    )
    return struct_of(f2=("i64", 0), f3=("struct", about))


def file(body: bytes, schema: list[bytes], rows: int, chunks: list[list[bytes]]) -> bytes:
    """A whole file, of one group of rows for each list of chunks."""
    groups = [
        struct_of(f1=("list", listed(12, group)), f2=("i64", len(body)), f3=("i64", rows))
        for group in chunks
    ]
    footer = struct_of(
        f1=("i32", 1),
        f2=("list", listed(12, schema)),
        f3=("i64", rows * len(chunks)),
        f4=("list", listed(12, groups)),
    )
    return b"PAR1" + body + footer + struct.pack("<I", len(footer)) + b"PAR1"


def honest(count: int = 10, claimed: int | None = None) -> bytes:
    """A column of whole numbers, of whose first page another count may be claimed."""
    body = data_page(bytes(4 * count), count if claimed is None else claimed, _PLAIN)
    schema = [element("root", children=1), element("path", _INT32)]
    return file(body, schema, count, [[column(_INT32, count, len(body))]])


def nested(depth: int) -> bytes:
    """A schema of groups within groups."""
    groups = [element("group", children=1, repetition=_OPTIONAL)] * depth
    schema = [element("root", children=1), *groups, element("path", _INT32)]
    return file(bytes(8), schema, 0, [])


def wide(length: int, count: int) -> bytes:
    """Nulls of a column whose values are said to have so many bytes each."""
    levels = varint(count << 1) + b"\0"
    body = data_page(struct.pack("<I", len(levels)) + levels, count, _PLAIN)
    schema = [
        element("root", children=1),
        element("path", _FIXED, length=length, repetition=_OPTIONAL),
    ]
    return file(body, schema, count, [[column(_FIXED, count, len(body))]])


def repeated(count: int) -> bytes:
    """So many times the one text of a dictionary."""
    word = struct.pack("<I", 3) + b"abc"
    about = struct_of(f1=("i32", 1), f2=("i32", _PLAIN))
    dictionary = page(2, len(word), 7, about) + word
    body = dictionary + data_page(b"\1" + varint(count << 1) + b"\0", count, _DICTIONARY)
    schema = [element("root", children=1), element("path", _BYTE_ARRAY, converted=_TEXT)]
    chunk = column(_BYTE_ARRAY, count, len(body), len(dictionary))
    return file(body, schema, count, [[chunk]])


def shared(chunks: int, length: int) -> bytes:
    """Groups whose columns are all the same stretch of empty pages."""
    schema = [element("root", children=1), element("path", _INT32)]
    return file(bytes(length), schema, 1, [[column(_INT32, 1, length)]] * chunks)


def columns(count: int) -> bytes:
    schema = [element("root", children=count)]
    return file(bytes(8), [*schema, *[element(f"c{n}", _INT32) for n in range(count)]], 0, [])


LYING = {
    "nested in itself": nested(3000),
    "nested deeper": nested(8000),
    "wide values": wide(10**9, 1000),
    "a text a billion times": repeated(2_900_000_000),
    "a page of fewer than none": honest(claimed=-64),
    "a page of too many": honest(claimed=2**31 - 1),
    "empty pages": shared(100, 200_000),
    "columns": columns(20_000),
    "half": honest()[:60],
    "no footer": b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1",
}
