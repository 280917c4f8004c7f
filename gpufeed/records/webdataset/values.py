"""Values of the samples of a shard: text, and parts of JSON, in its index once they were wanted."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from gpufeed.records.webdataset.wanted import Wanted
from gpufeed.source.storage import Stamp, Storage, StoredRange

__all__ = ["VALUE_COLUMNS", "read_values", "samples_of", "value_columns"]

VALUE_COLUMNS = ("value ", "problem of ")
"""Beginnings of the names of an index's columns of values, and of what is wrong with them."""
_MAX_VALUE = 1 << 20
_AT_ONCE = 1 << 10
"""Members that are read together."""


def value_columns(value: Wanted) -> tuple[str, ...]:
    """Return the names of a value's columns in an index: of the values, and of the problems."""
    return tuple(f"{beginning}{value}" for beginning in VALUE_COLUMNS)


def read_values(
    storage: Storage, shard: str, stamp: Stamp, index: pl.DataFrame, value: Wanted
) -> pl.DataFrame:
    """Return the columns `value_columns`, with values in the rows of samples.

    Args:
        storage: has the shard.
        shard: its path.
        stamp: its stamp.
        index: its index.
        value: what to read of each sample.

    Raises:
        OSError: the shard cannot be read.
    """
    found: dict[str, list[str | None]] = {
        name: [None] * index.height for name in value_columns(value)
    }
    values, problems = found.values()

    def keep(row: int, extension: str, content: bytes | memoryview) -> None:
        try:
            values[row] = value.value(bytes(content))
        except ValueError as error:
            problems[row] = f"its member {extension} is not valid: {error}"

    members = []
    for row, extension, start, length, problem in _find(index, value):
        if problem is not None:
            problems[row] = problem
        elif length > _MAX_VALUE:
            problems[row] = (
                f"its member {extension} has {length:,} bytes; the limit is {_MAX_VALUE:,}"
            )
        elif length:
            members.append((row, extension, StoredRange(shard, start, length, stamp)))
        else:
            keep(row, extension, b"")  # a store refuses a range of no bytes
    for first in range(0, len(members), _AT_ONCE):
        some = members[first : first + _AT_ONCE]
        contents = storage.read([each for _, _, each in some])
        for (row, extension, _), content in zip(some, contents, strict=True):
            if isinstance(content, OSError):
                raise content
            keep(row, extension, content)
    return pl.DataFrame(found, schema=dict.fromkeys(found, pl.String))


_Member = tuple[int, str, int, int, str | None]
"""The row of its sample; its extension, start, length and problem."""


def _find(index: pl.DataFrame, value: Wanted) -> list[_Member]:
    """Return the member of each sample that has the value."""
    found: dict[int, _Member] = {}
    sample, rank = 0, {extension: place for place, extension in enumerate(value.extensions)}
    rows = index.select("extension", "start", "length", "problem").iter_rows()
    for row, (extension, *place) in enumerate(rows):
        if extension is None:
            sample = row
        elif extension in rank:
            best = found.get(sample)
            if best is None or rank[extension] < rank[best[1]]:
                found[sample] = sample, extension, *place
    return list(found.values())


def samples_of(index: pl.DataFrame, values: Sequence[Wanted]) -> pl.DataFrame:
    """Return the rows of an index for the shard and its samples.

    They lack other values, and `problem` also says what is wrong with these.
    """
    columns = dict.fromkeys(value_columns(value) for value in values)
    return index.filter(pl.col("extension").is_null()).select(
        *("key", "name", "start", "length", "width", "height", "bits"),
        pl.coalesce("problem", *(problem for _, problem in columns)),
        *(name for name, _ in columns),
    )
