"""Looks through a Parquet file for numbers that would end the process that reads it.

polars believes what a page says it holds, and asks for memory for it; where there is none, the
process is at an end, and no error can be raised. Of Parquet's own numbers, which are written in
Thrift's compact protocol, those that ask for memory are looked at here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["MARK", "check_parquet"]

MARK = b"PAR1"
_DEEPEST = 16
_VALUE_BYTES = 8
"""What a value takes in memory, at the least that is common."""

# Field numbers of the format's Thrift definition.
_ROW_GROUPS, _COLUMNS, _COLUMN = 4, 1, 3
_NUM_VALUES, _COMPRESSED, _DATA_AT, _DICTIONARY_AT = 5, 7, 9, 11
_PAGE_PLAIN, _PAGE_PACKED = 2, 3
_DATA_PAGE, _DICTIONARY, _DATA_PAGE_2 = 5, 7, 8


def check_parquet(data: bytes) -> None:
    """Raise where a Parquet file holds other numbers of values than it says, or more than can be.

    Args:
        data: the whole file.

    Raises:
        ValueError: it does, or is no Parquet file at all.
    """
    if len(data) < 12 or data[:4] != MARK or data[-4:] != MARK:
        raise ValueError(f"it does not begin and end with {MARK.decode()}")
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if start < 4:
        raise ValueError("its footer is longer than the file")
    footer = _Thrift(data, start, len(data) - 8).struct()
    memory = _machine_memory()
    for group in _list(footer, _ROW_GROUPS):
        for chunk in _list(group, _COLUMNS):
            memory -= _check_chunk(data, _part(chunk, _COLUMN))
            if memory < 0:
                raise ValueError("it says that it holds more than this machine's memory can")


def _check_chunk(data: bytes, chunk: dict[int, Any]) -> int:
    """Check a column's pages in one row group; returns the bytes that they take in memory."""
    wanted = _number(chunk, _NUM_VALUES)
    at = _number(chunk, _DATA_AT)
    if _DICTIONARY_AT in chunk:
        at = min(at, _number(chunk, _DICTIONARY_AT) or at)
    end = at + _number(chunk, _COMPRESSED)
    if end > len(data):
        raise ValueError("a column reaches beyond the end of the file")
    taken = wanted * _VALUE_BYTES
    while wanted > 0 and at < end:
        header = _Thrift(data, at, len(data))
        page = header.struct()
        plain, packed = _number(page, _PAGE_PLAIN), _number(page, _PAGE_PACKED)
        at = header.at + packed
        if at > len(data):
            raise ValueError("a page reaches beyond the end of the file")
        taken += plain
        for kind in (_DATA_PAGE, _DICTIONARY, _DATA_PAGE_2):
            if kind not in page:
                continue
            inner = _part(page, kind)
            held = _number(inner, 1)
            if kind == _DATA_PAGE_2:
                # Nulls, rows, and the bytes of two lists of levels.
                for field, most in ((2, held), (3, held), (5, packed), (6, packed)):
                    if _number(inner, field) > most:
                        raise ValueError("a page contradicts itself")
            if kind != _DICTIONARY:
                wanted -= held
            elif held > max(plain, 1) * 8:
                raise ValueError(f"a dictionary of {plain:,} bytes says that it has {held:,} words")
        if wanted < 0:
            raise ValueError("a page says that it holds more values than its column has")
    return taken


def _machine_memory() -> int:
    """Bytes of all memory there is."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _number(fields: dict[int, Any], field: int) -> int:
    value = fields.get(field, 0)
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} where a number of 0 or more must be")
    return value


def _part(fields: dict[int, Any], field: int) -> dict[int, Any]:
    value = fields.get(field)
    if not isinstance(value, dict):
        raise ValueError("a part of its footer is missing")
    return value


def _list(fields: dict[int, Any], field: int) -> Iterator[dict[int, Any]]:
    values = fields.get(field, [])
    if not isinstance(values, list):
        raise ValueError("a list of its footer is none")
    for value in values:
        if not isinstance(value, dict):
            raise ValueError("a list of its footer holds something else than structures")
        yield value


class _Thrift:
    """Reads Thrift's compact protocol.

    Args:
        data: a file.
        at: where to begin.
        end: where it ends.

    Attributes:
        at: where it stands.
    """

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data = data
        self._end = end
        self.at = at
        self._readers: dict[int, Callable[[int], Any]] = {
            3: lambda _: self._take(1)[0],
            4: self._integer,
            5: self._integer,
            6: self._integer,
            7: lambda _: self._take(8),
            8: lambda _: self._take(self._varint()),
            9: self._values,
            10: self._values,
            12: self.struct,
            13: lambda _: self._take(16),
        }

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return a structure's values by their field numbers."""
        if depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        fields: dict[int, Any] = {}
        field = 0
        while True:
            head = self._take(1)[0]
            if head == 0:
                return fields
            step, kind = head >> 4, head & 15
            field = field + step if step else self._integer(0)
            fields[field] = kind == 1 if kind in (1, 2) else self._value(kind, depth)

    def _value(self, kind: int, depth: int) -> Any:
        if kind not in self._readers:
            raise ValueError(f"it holds something of the unknown type {kind}")
        return self._readers[kind](depth + 1)

    def _values(self, depth: int) -> list[Any]:
        head = self._take(1)[0]
        count, kind = head >> 4, head & 15
        if count == 15:
            count = self._varint()
        if count > self._end - self.at:  # each takes a byte at least
            raise ValueError("a list is longer than what is left")
        if kind in (1, 2):
            return [byte == 1 for byte in self._take(count)]
        return [self._value(kind, depth) for _ in range(count)]

    def _integer(self, _: int) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a number is too long")

    def _take(self, count: int) -> bytes:
        start = self.at
        if count > self._end - start:
            raise ValueError("it ends too soon")
        self.at = start + count
        return self._data[start : self.at]
