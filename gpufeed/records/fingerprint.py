"""A content hash of a manifest that does not depend on the machine or the version of polars.

The hashed bytes are defined here, independently of any library's format: numbers are
little-endian, strings are their lengths followed by their UTF-8, and nulls are a bit mask. Every
part is preceded by its length, so different contents never give the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import polars as pl

from gpufeed.errors import ManifestError

__all__ = ["check_dtypes", "fingerprint"]

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


class _Hash:
    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, part: bytes | str) -> None:
        data = part.encode() if isinstance(part, str) else part
        self._sha.update(len(data).to_bytes(8, "little"))
        self._sha.update(data)

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
        _add(digest, frame[column], column)
    return digest.hexdigest()


def check_dtypes(frame: pl.DataFrame) -> None:
    """Raise `ManifestError` if a column has a dtype that cannot be fingerprinted."""
    fingerprint(frame.clear(), ())


def _add(digest: _Hash, values: pl.Series, column: str) -> None:
    dtype = values.dtype
    digest.add(_mask(values))
    if code := _NUMBERS.get(type(dtype)):
        digest.add(code)
        array = values.fill_null(0).to_numpy().astype(f"<{code}")
        if code[0] == "f":
            array[np.isnan(array)] = np.nan  # NaN has many bit patterns
        digest.add(array.tobytes())
    elif dtype == pl.Boolean:
        digest.add("bool")
        digest.add(np.packbits(values.fill_null(False).to_numpy(), bitorder="little").tobytes())
    elif dtype == pl.String:
        digest.add("str")
        digest.add(_lengths(values.str.len_bytes()))
        digest.add("".join(values.drop_nulls().to_list()))
    elif dtype == pl.Binary:
        digest.add("bin")
        parts = values.drop_nulls().to_list()
        digest.add(np.array([len(part) for part in parts], "<u8").tobytes())
        digest.add(b"".join(parts))
    elif isinstance(dtype, pl.Categorical | pl.Enum):
        digest.add("category")
        _add(digest, values.cast(pl.String), column)
    elif isinstance(dtype, pl.Datetime):
        digest.add(f"datetime {dtype.time_unit} {dtype.time_zone or ''}")
        _add(digest, values.to_physical(), column)
    elif isinstance(dtype, pl.Duration):
        digest.add(f"duration {dtype.time_unit}")
        _add(digest, values.to_physical(), column)
    elif dtype in (pl.Date, pl.Time):
        digest.add("date" if dtype == pl.Date else "time")
        _add(digest, values.to_physical(), column)
    elif isinstance(dtype, pl.Decimal):
        digest.add(f"decimal {dtype.scale}")
        _add(digest, values.cast(pl.String), column)
    elif isinstance(dtype, pl.Array):
        digest.add(f"array {dtype.size}")
        _add(digest, values.arr.to_list(), column)
    elif isinstance(dtype, pl.List):
        digest.add("list")
        digest.add(_lengths(values.list.len()))
        present = values.drop_nulls()
        # explode() would turn an empty list into a null
        _add(digest, present.filter(present.list.len() > 0).explode(), column)
    elif isinstance(dtype, pl.Struct):
        digest.add(f"struct {len(dtype.fields)}")
        for field in dtype.fields:
            digest.add(field.name)
            _add(digest, values.struct.field(field.name), column)
    elif dtype == pl.Null:
        digest.add("null")
    else:
        raise ManifestError(
            f"column {column!r} has dtype {dtype}, which cannot be fingerprinted; drop or cast it"
        )


def _mask(values: pl.Series) -> bytes:
    return np.packbits(values.is_null().to_numpy(), bitorder="little").tobytes()


def _lengths(lengths: pl.Series) -> bytes:
    return lengths.fill_null(0).to_numpy().astype("<u8").tobytes()
