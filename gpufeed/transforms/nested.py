"""Lists of transforms with lists among them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["flat"]


def flat(transforms: Iterable[Any]) -> list[Any]:
    """Return transforms with the lists among them taken apart."""
    taken: list[Any] = []
    for each in transforms:
        taken += flat(each) if isinstance(each, list | tuple) else [each]
    return taken
