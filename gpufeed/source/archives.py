"""Recognises archives by their first bytes."""

from __future__ import annotations

__all__ = ["TAR", "ZIP", "archive_kind"]

TAR, ZIP = "a tar archive", "a zip archive"
_KINDS = {
    b"PK\x03\x04": ZIP,
    b"PK\x05\x06": ZIP,  # without members
    b"\x1f\x8b": "compressed by gzip",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ\0": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a rar archive",
}


def archive_kind(head: bytes) -> str | None:
    """Return what an archive is by its first 512 bytes, or None if it is none."""
    if head[257:262] == b"ustar":
        return TAR
    return next((kind for magic, kind in _KINDS.items() if head.startswith(magic)), None)
