"""A folder for each class, whatever its name is."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["class_folders"]

_MAX_CHARS = 60
"""Characters of a name, which take up to four bytes each of the 255 that a file system has."""


def class_folders(classes: Sequence[str]) -> tuple[str, ...]:
    """Return a different name for each class, which stays inside its folder.

    Names are those of the classes, without characters that cannot be in one and dots in front; if
    some are the same then, they end in the number of their class.
    """
    names = []
    for name in classes:
        plain = "".join(char if char.isprintable() and char != "/" else "_" for char in name)
        names.append((f"_{plain}" if plain.startswith(".") else plain)[:_MAX_CHARS] or "_")
    once = {name for name in names if names.count(name) == 1}
    return tuple(name if name in once else f"{name}_{number}" for number, name in enumerate(names))
