"""Parquet as datasets 5 exports it to the Hub: images uncompressed, in two files."""

from __future__ import annotations

from pathlib import Path

import gpufeed
from benchmarks.formats import Images, huggingface

NEEDS = ("datasets", "pyarrow")


def write(images: Images, folder: Path) -> None:
    """Write two files."""
    whole = huggingface.dataset(images)
    for number in range(2):
        part = whole.shard(2, number, contiguous=True)
        part.to_parquet(folder / f"train-{number:05}-of-00002.parquet")


def read(folder: Path) -> gpufeed.Manifest:
    """Read both."""
    return gpufeed.read_table(f"{folder}/train-*.parquet", image="image", progress=False)
