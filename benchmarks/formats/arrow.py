"""Arrow IPC, as polars writes it: a column of binary, and one of text."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import gpufeed
from benchmarks.formats import Images

NEEDS = ("pyarrow",)


def write(images: Images, folder: Path) -> None:
    """Write a file."""
    labels = [name.partition("/")[0] for name in images.names]
    frame = pl.DataFrame({"path": images.names, "picture": images.contents, "label": labels})
    frame.write_ipc(folder / "train.arrow")


def read(folder: Path) -> gpufeed.Manifest:
    """Read it."""
    return gpufeed.read_table(folder / "train.arrow", image="picture", progress=False)
