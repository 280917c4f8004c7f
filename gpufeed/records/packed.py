"""Images that `prepare` wrote: where they are, by the columns of their manifest."""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl

from gpufeed.errors import ConfigError
from gpufeed.source.array_record import ArrayRecordSource
from gpufeed.source.base import Source
from gpufeed.source.locate import Root, source_of, storage_of
from gpufeed.source.ranges import RangeSource
from gpufeed.source.raw import RawSource
from gpufeed.source.storage import LocalStorage, Stamp, Storage

__all__ = ["LENGTH", "START", "Packing", "open_packed"]

Packing = Literal["files", "tar", "parquet", "arrayrecord", "raw"]
"""How images are packed."""

START, LENGTH = "start", "length"
"""Columns of the first byte of each image in its file, and of the number of its bytes."""


def open_packed(packing: Packing, root: Root, frame: pl.DataFrame) -> Source:
    """Return the images of a manifest that `prepare` made.

    A file that is missing is so for each of its images, when they are read.

    Args:
        packing: how they are packed.
        root: the folder of their files, or its URL.
        frame: the manifest's columns; a path is that of a file, after "/" the image's name in it,
            unless the image is a file itself.

    Raises:
        ConfigError: the images are in ArrayRecord files at a URL.
        ManifestError: ArrayRecord files are missing or damaged.
    """
    paths = frame["path"]
    if packing == "files":
        return source_of(root, paths)
    storage = storage_of(root)
    shard = paths.str.split_exact("/", 1).struct.rename_fields(["file", "name"])
    file = shard.struct.field("file")
    files = file.unique(maintain_order=True)
    if packing == "arrayrecord":
        if not isinstance(storage, LocalStorage):
            raise ConfigError(
                f"root is {storage!r}, and ArrayRecord's library reads files of this machine only; "
                "copy them"
            )
        return ArrayRecordSource([storage.root / each for each in files])
    which = file.replace_strict(files, np.arange(len(files)), return_dtype=pl.Int32).to_numpy()
    stamps = [_stamp(storage, each) for each in files]
    starts, lengths = (frame[name].to_numpy() for name in (START, LENGTH))
    ranges = (storage, files.to_list(), stamps, which, starts, lengths, shard.struct.field("name"))
    if packing == "raw":
        return RawSource(*ranges, sizes=(frame["height"].to_numpy(), frame["width"].to_numpy()))
    return RangeSource(*ranges)


def _stamp(storage: Storage, file: str) -> Stamp:
    try:
        return storage.stamp(file)
    except OSError:
        return Stamp(0, "missing")
