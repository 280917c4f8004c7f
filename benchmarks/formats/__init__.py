"""The same images in several formats, each written by the format's own library.

Each module has `NEEDS`, the packages that it imports; `write(images, folder)`; and `read(folder)`,
which returns the manifest of what was written, by the public functions of gpufeed.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Protocol, cast

import gpufeed

__all__ = ["FORMATS", "Format", "Images"]


class Images(NamedTuple):
    """Images to write, in the order that all formats must keep.

    Attributes:
        names: of the files, `class/number.jpg`, in sorted order.
        contents: of the files.
        labels: the names of the classes.
        sizes: (width, height) of each image.
    """

    names: list[str]
    contents: list[bytes]
    labels: list[str]
    sizes: list[tuple[int, int]]


class Format(Protocol):
    """A module of this package."""

    NEEDS: tuple[str, ...]

    def write(self, images: Images, folder: Path) -> None:
        """Write the images below an empty folder."""

    def read(self, folder: Path) -> gpufeed.Manifest:
        """Read them, with the classes in sorted order."""


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


FORMATS: dict[str, Format] = {
    each.name: cast("Format", _module(each.name)) for each in pkgutil.iter_modules(__path__)
}
