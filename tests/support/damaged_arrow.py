"""Arrow files whose texts lead astray."""

from __future__ import annotations

import struct
from pathlib import Path

__all__ = ["astray"]


def astray(file: Path, text: str) -> None:
    """Change where an Arrow file says that a text of more than 12 letters is, to far away."""
    content = bytearray(file.read_bytes())
    place = content.index(struct.pack("<i4s", len(text), text[:4].encode()))
    struct.pack_into("<i", content, place + 12, 1 << 30)
    file.write_bytes(content)
