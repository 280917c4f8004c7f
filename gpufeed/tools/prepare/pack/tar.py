"""Tar shards as WebDataset reads them: an image, its class and its columns as JSON."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import PurePath
from typing import BinaryIO

from gpufeed.tools.prepare.pack.item import Item

__all__ = ["pack"]


def pack(file: BinaryIO, items: Iterator[Item]) -> list[int]:
    """Write a shard: see `Pack`."""
    starts = []
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:

        def add(name: str, content: bytes) -> int:
            # Its defaults name no time, user or group.
            member = tarfile.TarInfo(name)
            member.size = len(content)
            start = tar.offset + tarfile.BLOCKSIZE
            tar.addfile(member, io.BytesIO(content))
            return start

        for item in items:
            starts.append(add(item.name, item.content))
            key, columns = PurePath(item.name).stem, item.row.row(0, named=True)
            label = columns.get("label")
            if isinstance(label, int):
                add(f"{key}.cls", str(label).encode())
            add(f"{key}.json", json.dumps(columns, default=str).encode())
    return starts
