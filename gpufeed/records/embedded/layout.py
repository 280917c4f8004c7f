"""Where the images of a Parquet file are: of its row groups, of all of it, and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed.source.chunks import CODECS, SNAPPY, Chunks

__all__ = ["COLUMNS", "MAX_PAGE_BYTES", "Layout", "from_table", "join_layouts", "to_table"]

Int64 = npt.NDArray[np.int64]

MAX_PAGE_BYTES = (1 << 31) - 1
"""The format has no longer pages."""

_IMAGES = {"start": pl.Int64, "length": pl.Int64}
_CHUNKS = {"begin": pl.Int64, "offset": pl.Int64, "size": pl.Int64, "codec": pl.UInt8}
COLUMNS = _IMAGES | _CHUNKS
"""Columns of a table of a layout: those of images, and those of chunks, beside each other."""


class Layout(NamedTuple):
    """The values of a column.

    Attributes:
        starts: int64 (n,), the first byte of each: of the file, or where there are chunks, of them
            decompressed.
        lengths: int64 (n,), their numbers of bytes; -1 for a null.
        chunks: the chunks that hold them; None if none is compressed.
    """

    starts: Int64
    lengths: Int64
    chunks: Chunks | None


def join_layouts(layouts: Sequence[Layout], size: int) -> Layout:
    """Return the layout of a file of `size` bytes, of those of its row groups."""
    if all(each.chunks is None for each in layouts):
        empty = np.zeros(0, np.int64)
        starts = np.concatenate([empty, *(each.starts for each in layouts)])
        return Layout(starts, np.concatenate([empty, *(each.lengths for each in layouts)]), None)
    # A row group that is not compressed is in the file as it is.
    whole = Chunks(np.array([0, size]), np.array([0]), np.array([size]), np.zeros(1, np.uint8))
    parts = [layout.chunks or whole for layout in layouts]
    ends = np.cumsum([part.begins[-1] for part in parts])
    firsts = [0, *ends[:-1].tolist()]
    begins = [first + part.begins[:-1] for first, part in zip(firsts, parts, strict=True)]
    return Layout(
        np.concatenate([first + each.starts for first, each in zip(firsts, layouts, strict=True)]),
        np.concatenate([each.lengths for each in layouts]),
        Chunks(
            np.concatenate([*begins, ends[-1:]]),
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("offsets", "sizes", "codecs")
            ),
        ),
    )


def to_table(layout: Layout) -> pl.DataFrame:
    """Return a layout as a table, in which shorter columns end in nulls."""
    values = {"start": layout.starts, "length": layout.lengths}
    if layout.chunks is not None:
        values |= dict(zip(_CHUNKS, vars(layout.chunks).values(), strict=True))
    empty = np.zeros(0, np.int64)
    rows = max(map(len, values.values()))
    columns = [
        pl.Series(name, values.get(name, empty), dtype=dtype) for name, dtype in COLUMNS.items()
    ]
    return pl.DataFrame([column.extend_constant(None, rows - len(column)) for column in columns])


def from_table(table: pl.DataFrame, count: int, size: int) -> Layout | None:
    """Return the layout in a table, or None if it is not one of `count` images in `size` bytes."""
    starts, lengths, *of_chunks = (table[name].drop_nulls().to_numpy() for name in COLUMNS)
    if not len(starts) == len(lengths) == count:
        return None
    chunks = Chunks(*of_chunks) if len(of_chunks[0]) else None
    read = lengths > 0
    starts_read, lengths_read = starts[read], lengths[read]
    end = size if chunks is None else int(chunks.begins[-1])
    if ((starts_read < 0) | (starts_read > end - lengths_read)).any():
        return None
    if chunks is not None and not _fit(chunks, size, starts_read, starts_read + lengths_read):
        return None
    return Layout(starts, lengths, chunks)


def _fit(chunks: Chunks, size: int, starts: Int64, ends: Int64) -> bool:
    """Return whether chunks are in a file of `size` bytes, and images can be read from them."""
    begins, offsets, sizes, codecs = vars(chunks).values()
    if not len(begins) - 1 == len(offsets) == len(sizes) == len(codecs):
        return False
    totals = np.diff(begins)
    if begins[0] or (begins < 0).any() or (totals < 0).any() or (codecs >= len(CODECS)).any():
        return False
    inside = (sizes >= 0) & (sizes <= size) & (offsets >= 0) & (offsets <= size - sizes)
    if not (inside & (totals <= np.where(codecs == 0, sizes, MAX_PAGE_BYTES))).all():
        return False
    # Only blocks of Snappy that follow one another are read together.
    snappy = codecs == SNAPPY
    follows = snappy[1:] & snappy[:-1] & (offsets[1:] == offsets[:-1] + sizes[:-1])
    run = np.cumsum(np.append(0, ~follows))
    first = np.searchsorted(begins, starts, "right") - 1
    last = np.searchsorted(begins, ends, "left") - 1
    whole = begins[last + 1] - begins[first]
    return bool(((run[first] == run[last]) & ((first == last) | (whole <= MAX_PAGE_BYTES))).all())
