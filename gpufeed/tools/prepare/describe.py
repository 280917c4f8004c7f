"""Where prepared images are, as their saved manifest says it."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpufeed.source.base import Saved
from gpufeed.source.saved_files import beside
from gpufeed.tools.prepare.settings import Packing

__all__ = ["describe"]


def describe(packing: Packing, facts: pl.DataFrame) -> Saved:
    """Return what opens the images from the folder of their manifest.

    Args:
        packing: how they are packed.
        facts: what the shards wrote about the images, with their heights and widths.
    """
    paths = facts["path"]
    if packing == "files":
        return Saved({"kind": "FileSource", "root": None}, paths.to_frame("path"))
    shard = paths.str.split_exact("/", 1).struct.rename_fields(["file", "name"]).struct
    file = shard.field("file")
    files = file.unique(maintain_order=True)
    which = file.replace_strict(files, np.arange(len(files)), return_dtype=pl.Int32)
    about = beside(files.to_list())
    if packing == "arrayrecord":
        ends = np.cumsum(np.bincount(which)).tolist()
        return Saved(
            {"kind": "ArrayRecordSource", "image": None, "ends": ends, **about}, pl.DataFrame()
        )
    columns = facts.select("start", "length", which.alias("file"), shard.field("name"))
    if packing == "raw":
        sizes = facts.select("height", "width")
        return Saved({"kind": "RawSource", **about}, columns.hstack(sizes))
    return Saved({"kind": "RangeSource", **about}, columns)
