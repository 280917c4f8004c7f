"""Parquet as pyarrow writes it by default, and datasets before 5: Snappy, and a dictionary."""

from __future__ import annotations

from pathlib import Path

import gpufeed
from benchmarks.formats import Images, huggingface

NEEDS = ("datasets", "pyarrow")


def write(images: Images, folder: Path) -> None:
    """Write a file with several row groups."""
    from pyarrow import parquet

    table = huggingface.dataset(images).data.table
    parquet.write_table(table, folder / "train.parquet", row_group_size=10)


def read(folder: Path) -> gpufeed.Manifest:
    """Read it."""
    return gpufeed.read_table(folder / "train.parquet", image="image", progress=False)
