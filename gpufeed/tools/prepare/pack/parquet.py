"""Parquet files: images in the column `image`, as Hugging Face has them, and all other columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from gpufeed.records.embedded.pages import locate_images
from gpufeed.tools.prepare.pack.item import Item

__all__ = ["pack"]

_GROUP = 64
"""Images in a row group, which is in memory until it is written."""


def pack(file: BinaryIO, items: Iterator[Item]) -> list[int]:
    """Write a Parquet file: see `Pack`. Images are not compressed again, and are found alone."""
    from pyarrow import parquet

    writer: Any = None
    while group := [*itertools.islice(items, _GROUP)]:
        table = _table(group)
        if writer is None:
            writer = parquet.ParquetWriter(
                file, table.schema, compression="none", use_dictionary=False
            )
        writer.write_table(table)
    writer.close()
    file.flush()
    starts: list[int] = []
    with Path(file.name).open("rb") as written:
        metadata = parquet.ParquetFile(written).metadata
        place = metadata.num_columns - 2  # the images are last, and their paths after their bytes
        for number in range(metadata.num_row_groups):
            chunk = metadata.row_group(number).column(place)
            starts += locate_images(written, chunk, metadata.schema.column(place)).starts.tolist()
    return starts


def _table(group: list[Item]) -> Any:
    import pyarrow as pa

    rows = pl.concat([item.row for item in group], rechunk=True)
    table = rows.drop("image", strict=False).to_arrow()
    fields = [pa.field("bytes", pa.binary()), pa.field("path", pa.string())]
    images = pa.StructArray.from_arrays(
        [
            pa.array([item.content for item in group], pa.binary()),
            pa.array([item.name for item in group], pa.string()),
        ],
        fields=fields,
    )
    return table.append_column("image", images)
