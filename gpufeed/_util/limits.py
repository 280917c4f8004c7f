"""What the machine has."""

from __future__ import annotations

import os

__all__ = ["quarter_of_memory"]


def quarter_of_memory() -> int:
    """Return a quarter of the machine's memory, in bytes: what one file may take to be read."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
