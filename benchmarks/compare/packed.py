"""Folders for the files that contenders pack images into."""

from __future__ import annotations

import tempfile
from pathlib import Path

__all__ = ["packed_files", "packed_folder"]

_PREFIX = "packed-"


def packed_folder() -> Path:
    """Make a folder; where a comparison runs the contender, it is removed with the comparison's."""
    return Path(tempfile.mkdtemp(prefix=_PREFIX))


def packed_files(scratch: Path) -> list[str]:
    """All files in such folders, made by contenders whose temporary folder is `scratch`."""
    return [str(path) for path in scratch.glob(f"{_PREFIX}*/**/*") if path.is_file()]
