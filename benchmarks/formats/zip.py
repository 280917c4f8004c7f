"""Class folders in a zip archive: half of the files stored, half deflated."""

from __future__ import annotations

import zipfile
from pathlib import Path

import gpufeed
from benchmarks.formats import Images

NEEDS: tuple[str, ...] = ()


def write(images: Images, folder: Path) -> None:
    """Write the archive."""
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for number, (name, content) in enumerate(zip(images.names, images.contents, strict=True)):
            archive.writestr(name, content, methods[number % 2])


def read(folder: Path) -> gpufeed.Manifest:
    """Read class folders."""
    return gpufeed.read_folder(folder / "images.zip", progress=False)
