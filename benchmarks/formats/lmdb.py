"""An LMDB database of encoded images, whose keys are the names of their files."""

from __future__ import annotations

from pathlib import Path

import gpufeed
from benchmarks.formats import Images

NEEDS: tuple[str, ...] = ("lmdb",)


def write(images: Images, folder: Path) -> None:
    """Write the database."""
    import lmdb

    size = 2 * sum(map(len, images.contents)) + (16 << 20)
    with (
        lmdb.open(str(folder / "images"), map_size=size) as database,
        database.begin(write=True) as transaction,
    ):
        for name, content in zip(images.names, images.contents, strict=True):
            transaction.put(name.encode(), content)


def read(folder: Path) -> gpufeed.Manifest:
    """Read it, with the folders in the keys as labels."""
    source = gpufeed.LmdbSource(folder / "images")
    labels = {"label": [name.partition("/")[0] for name in source.names]}
    return gpufeed.read_table(labels, source=source, progress=False)
