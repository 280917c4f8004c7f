"""A folder for each class, whatever its name is."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

__all__ = ["class_folders"]

_MAX_CHARS = 50
"""Characters of a name, which take up to four bytes each of the 255 that a file system has."""
_ILLEGAL = '/\\<>:"|?*'
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)
"""Names of devices on Windows."""


def class_folders(classes: Sequence[str]) -> tuple[str, ...]:
    """Return a folder name for each class, different on every file system.

    Names are those of the classes, without characters that Linux, macOS or Windows forbid. Names
    that are then the same, except for case, end in the number of their class.
    """
    names = [_plain(name) for name in classes]
    while True:
        keys = [unicodedata.normalize("NFC", name).casefold() for name in names]
        counts = Counter(keys)
        if len(counts) == len(names):
            return tuple(names)
        names = [
            name if counts[key] == 1 else f"{name}_{number}"
            for number, (name, key) in enumerate(zip(names, keys, strict=True))
        ]


def _plain(name: str) -> str:
    """Return a name that can be a folder's and stays inside its parent."""
    name = "".join(char if char.isprintable() and char not in _ILLEGAL else "_" for char in name)
    if name.startswith(".") or _RESERVED.match(name):
        name = f"_{name}"
    return name[:_MAX_CHARS].rstrip(". ") or "_"
