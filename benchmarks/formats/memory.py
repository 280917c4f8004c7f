"""Encoded images in memory: nothing is written."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import gpufeed
from benchmarks.formats import Images, files

NEEDS: tuple[str, ...] = ()


def write(images: Images, folder: Path) -> None:
    """Write files, since memory does not outlive a process."""
    files.write(images, folder)


def read(folder: Path) -> gpufeed.Manifest:
    """Read all files into memory."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*"))
    images = {name: (folder / name).read_bytes() for name in names}
    labels = pl.DataFrame({"label": [name.partition("/")[0] for name in names]})
    return gpufeed.read_table(labels, source=gpufeed.MemorySource(images), progress=False)
