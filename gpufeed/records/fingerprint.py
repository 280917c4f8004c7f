"""A content hash of a manifest that does not depend on the machine or the version of polars.

The hashed bytes are defined here, independently of any library's format: numbers are
little-endian, strings are their lengths followed by their UTF-8, and nulls are a bit mask. Every
part is preceded by its length, so different contents never give the same bytes. Columns are hashed
a piece at a time, so that the memory it takes does not depend on their length.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from gpufeed._util.rows import pieces
from gpufeed.errors import ManifestError

__all__ = ["check_dtypes", "fingerprint", "forked"]

_VERSION = b"gpufeed manifest 1"
_NUMBERS: dict[type[pl.DataType], str] = {
    pl.Int8: "i1",
    pl.Int16: "i2",
    pl.Int32: "i4",
    pl.Int64: "i8",
    pl.UInt8: "u1",
    pl.UInt16: "u2",
    pl.UInt32: "u4",
    pl.UInt64: "u8",
    pl.Float32: "f4",
    pl.Float64: "f8",
}


Pieces = Callable[[], Iterator[pl.Series]]
"""Returns a column in pieces, at least one, as often as it is called."""
Part = bytes | memoryview


class _Hash:
    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, part: bytes | str) -> None:
        data = part.encode() if isinstance(part, str) else part
        self.add_in_pieces(len(data), [data])

    def add_in_pieces(self, length: int, part: Iterable[Part]) -> None:
        """Add one part of `length` bytes."""
        self._sha.update(length.to_bytes(8, "little"))
        for piece in part:
            self._sha.update(piece)

    def hexdigest(self) -> str:
        return self._sha.hexdigest()


def fingerprint(frame: pl.DataFrame, classes: Sequence[str]) -> str:
    """Return the SHA-256 (64 hex digits) of the classes and each column's name, dtype and values.

    It depends on the order of the rows, but not of the columns. -0.0 and 0.0 differ; all NaNs are
    equal. Categorical and Enum columns are hashed as text.

    Raises:
        ManifestError: a column has a dtype without a canonical form (Object).
    """
    digest = _Hash()
    digest.add(_VERSION)
    digest.add(str(len(classes)))
    for name in classes:
        digest.add(name)
    digest.add(str(frame.height))
    for column in sorted(frame.columns):
        digest.add(column)
        _add(digest, lambda name=column: pieces(frame[name]), column)  # type: ignore[misc]
    return digest.hexdigest()


def forked() -> bool:
    """Whether this process was forked from one that may have used polars, which then may hang."""
    return _forked


def _note_fork() -> None:
    global _forked
    _forked = True


_forked = False
os.register_at_fork(after_in_child=_note_fork)


def check_dtypes(frame: pl.DataFrame) -> None:
    """Raise `ManifestError` if a column has a dtype that cannot be fingerprinted."""
    fingerprint(frame.clear(), ())


def _add(digest: _Hash, values: Pieces, column: str) -> None:
    dtype, count = next(values()).dtype, sum(map(len, values()))

    def each(change: Callable[[pl.Series], pl.Series]) -> Pieces:
        return lambda: map(change, values())

    def add_bits(change: Callable[[pl.Series], pl.Series]) -> None:
        digest.add_in_pieces((count + 7) // 8, _packed(each(change)()))

    def add_numbers(change: Callable[[pl.Series], pl.Series], code: str, count: int) -> None:
        size = np.dtype(code).itemsize * count
        digest.add_in_pieces(size, (_numbers(change(piece), code) for piece in values()))

    add_bits(pl.Series.is_null)
    if code := _NUMBERS.get(type(dtype)):
        digest.add(code)
        add_numbers(lambda piece: piece.fill_null(0), code, count)
    elif dtype == pl.Boolean:
        digest.add("bool")
        add_bits(lambda piece: piece.fill_null(False))
    elif dtype == pl.String:
        digest.add("str")
        add_numbers(lambda piece: piece.str.len_bytes().fill_null(0), "u8", count)
        size = sum(int(piece.str.len_bytes().sum()) for piece in values())
        joined = (piece.str.join("").item().encode() for piece in values())
        digest.add_in_pieces(size, joined)
    elif dtype == pl.Binary:
        digest.add("bin")
        present = each(pl.Series.drop_nulls)
        add_numbers(lambda piece: piece.drop_nulls().bin.size(), "u8", sum(map(len, present())))
        size = sum(int(piece.bin.size().sum()) for piece in present())
        digest.add_in_pieces(size, (b"".join(piece.to_list()) for piece in present()))
    elif isinstance(dtype, pl.Categorical | pl.Enum):
        digest.add("category")
        _add(digest, each(lambda piece: piece.cast(pl.String)), column)
    elif isinstance(dtype, pl.Datetime):
        digest.add(f"datetime {dtype.time_unit} {dtype.time_zone or ''}")
        _add(digest, each(pl.Series.to_physical), column)
    elif isinstance(dtype, pl.Duration):
        digest.add(f"duration {dtype.time_unit}")
        _add(digest, each(pl.Series.to_physical), column)
    elif dtype in (pl.Date, pl.Time):
        digest.add("date" if dtype == pl.Date else "time")
        _add(digest, each(pl.Series.to_physical), column)
    elif isinstance(dtype, pl.Decimal):
        digest.add(f"decimal {dtype.scale}")
        _add(digest, each(lambda piece: piece.cast(pl.String)), column)
    elif isinstance(dtype, pl.Array):
        digest.add(f"array {dtype.size}")
        _add(digest, each(lambda piece: piece.arr.to_list()), column)
    elif isinstance(dtype, pl.List):
        digest.add("list")
        add_numbers(lambda piece: piece.list.len().fill_null(0), "u8", count)
        # explode() would turn an empty list into a null
        _add(digest, each(lambda piece: piece.filter(piece.list.len() > 0).explode()), column)
    elif isinstance(dtype, pl.Struct):
        digest.add(f"struct {len(dtype.fields)}")
        for field in dtype.fields:
            digest.add(field.name)
            _add(digest, each(lambda piece, name=field.name: piece.struct.field(name)), column)  # type: ignore[misc]
    elif dtype == pl.Null:
        digest.add("null")
    else:
        raise ManifestError(
            f"column {column!r} has dtype {dtype}, which cannot be fingerprinted; drop or cast it"
        )


def _numbers(values: pl.Series, code: str) -> memoryview:
    array = values.to_numpy().astype(f"<{code}", copy=False)
    if code[0] == "f":
        array = np.where(np.isnan(array), np.nan, array)  # NaN has many bit patterns
    return array.data


def _packed(values: Iterable[pl.Series]) -> Iterator[memoryview]:
    """Yield booleans as bits, also where pieces do not end at a whole byte."""
    left = np.empty(0, np.bool_)
    for piece in values:
        bits = np.concatenate([left, piece.to_numpy()])
        whole = len(bits) // 8 * 8
        yield np.packbits(bits[:whole], bitorder="little").data
        left = bits[whole:]
    yield np.packbits(left, bitorder="little").data
