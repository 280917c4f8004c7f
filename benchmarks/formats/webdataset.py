"""Tar shards, written by WebDataset."""

from __future__ import annotations

from pathlib import Path

import gpufeed
from benchmarks.formats import Images

NEEDS: tuple[str, ...] = ("webdataset",)

_SHARDS = 4


def write(images: Images, folder: Path) -> None:
    """Write a few shards, with labels as numbers and as text."""
    from webdataset import ShardWriter

    most = -(-len(images.names) // _SHARDS)
    with ShardWriter(str(folder / "%03d.tar"), maxcount=most, verbose=0) as writer:
        for number, (name, content) in enumerate(zip(images.names, images.contents, strict=True)):
            label = name.partition("/")[0]
            numbered = {"cls": images.labels.index(label), "txt": label}
            writer.write({"__key__": f"{number:06}", "jpg": content, **numbered})


def read(folder: Path) -> gpufeed.Manifest:
    """Read the shards."""
    return gpufeed.read_webdataset(folder / "*.tar", label="txt", progress=False)
