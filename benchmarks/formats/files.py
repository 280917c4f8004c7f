"""A file for each image, in class folders."""

from __future__ import annotations

from pathlib import Path

import gpufeed
from benchmarks.formats import Images

NEEDS: tuple[str, ...] = ()


def write(images: Images, folder: Path) -> None:
    """Write the files."""
    for name, content in zip(images.names, images.contents, strict=True):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)


def read(folder: Path) -> gpufeed.Manifest:
    """Read class folders."""
    return gpufeed.read_folder(folder, progress=False)
