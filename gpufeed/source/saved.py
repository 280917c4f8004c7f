"""The sources that manifests are saved with, and opened with again."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.source.array_record import ArrayRecordSource
from gpufeed.source.base import Saved, Source
from gpufeed.source.beton import BetonSource
from gpufeed.source.files import FileSource
from gpufeed.source.hdf5 import Hdf5Source
from gpufeed.source.lmdb import LmdbSource
from gpufeed.source.locate import Root, storage_of
from gpufeed.source.objects import ObjectSource
from gpufeed.source.ranges import RangeSource
from gpufeed.source.raw import RawSource
from gpufeed.source.selection import Joined, Selection
from gpufeed.source.storage import LocalStorage
from gpufeed.source.zipped import ZipSource, open_archive

Int64 = npt.NDArray[np.int64]

__all__ = ["open_paths", "open_source", "save_source"]


def save_source(source: Any) -> Saved | None:
    """Return what `open_source` takes; None for sources in memory and those of the user's own."""
    if isinstance(source, Joined):
        saved = _save_joined(source)
    elif type(source) in _OPENERS:
        saved = source.to_saved()
    else:
        return None
    return saved and Saved({"kind": type(source).__name__, **saved.about}, saved.columns)


def open_source(about: dict[str, Any], columns: pl.DataFrame, root: Root | None) -> Source:
    """Return the source that was saved. Nothing is read but the stamps of files that were moved.

    Args:
        about: of what `save_source` returned.
        columns: likewise; they may be mapped.
        root: where the files are now; None for where they were, if that was saved.

    Raises:
        ManifestError: the root has other files.
        ConfigError: the files were below several roots, or nothing can read the root.
        MissingExtraError: a package is not installed.
    """
    return _NAMED[about["kind"]](about, columns, root)


def open_paths(root: Root, paths: pl.Series) -> Source:
    """Return the files at paths that have been checked, below a root or in a zip archive."""
    if isinstance(root, str | os.PathLike) and (archive := open_archive(root)) is not None:
        return archive.find(paths)
    storage = storage_of(root)
    if isinstance(storage, LocalStorage):
        return FileSource.of_checked(storage.root, paths)
    return ObjectSource.of_checked(storage, paths)


def _open_files(about: dict[str, Any], columns: pl.DataFrame, root: Root | None) -> Source:
    return open_paths(storage_of(about["root"]) if root is None else root, columns["path"])


def _open_zip(about: dict[str, Any], columns: pl.DataFrame, root: Root | None) -> Source:
    if root is None:
        return ZipSource.from_saved(about, columns, None)
    return open_paths(root, columns["path"])


def _save_joined(joined: Joined) -> Saved | None:
    """Save several sources: the columns of the images of each, one after the other."""
    sources, which, keys = _flat(joined, np.arange(len(joined)))
    abouts, parts = [], []
    for number, source in enumerate(sources):
        saved = save_source(source)
        if saved is None:
            return None
        rows = np.flatnonzero(which == number)
        abouts.append({**saved.about, "count": len(rows)})
        part = pl.DataFrame({"row": rows})
        if saved.columns.width:
            part = part.hstack(saved.columns[keys[rows]])
            keys[rows] = np.arange(len(rows))
        parts.append(part)
    own = pl.concat(parts, how="diagonal").drop("row")
    numbers = pl.DataFrame({"which": which, "selected": keys})
    return Saved({"sources": abouts}, numbers.cast({"which": pl.Int32}).hstack(own))


def _flat(source: Source, keys: Int64) -> tuple[list[Source], Int64, Int64]:
    """Return the sources of images that are not joined from others, and each image's key there."""
    if not isinstance(source, Joined):
        return [source], np.zeros(len(keys), np.int64), keys
    outer, inner = source.find(keys)
    found: list[Source] = []
    which, own = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    for number, each in enumerate(source.sources):
        rows = np.flatnonzero(outer == number)
        sources, which_inner, own[rows] = _flat(each, inner[rows])
        which[rows] = which_inner + len(found)
        found += sources
    return found, which, own


def _open_joined(about: dict[str, Any], columns: pl.DataFrame, root: Root | None) -> Source:
    abouts = about["sources"]
    if root is not None and len(abouts) > 1:
        raise ConfigError(
            f"root is {short(root)}, but the images are of {len(abouts)} sources; pass source="
        )
    ends = np.cumsum([each["count"] for each in abouts]).tolist()
    sources = [
        open_source(each, columns.slice(end - each["count"], each["count"]), root)
        for each, end in zip(abouts, ends, strict=True)
    ]
    return Selection(sources, columns["which"].to_numpy(), columns["selected"].to_numpy())


_OPENERS: dict[type, Callable[[dict[str, Any], pl.DataFrame, Root | None], Source]] = {
    FileSource: _open_files,
    ObjectSource: _open_files,
    ZipSource: _open_zip,
    RangeSource: RangeSource.from_saved,
    RawSource: RawSource.from_saved,
    BetonSource: BetonSource.from_saved,
    LmdbSource: LmdbSource.from_saved,
    Hdf5Source: Hdf5Source.from_saved,
    ArrayRecordSource: ArrayRecordSource.from_saved,
    Joined: _open_joined,
    Selection: _open_joined,
}
_NAMED = {kind.__name__: opener for kind, opener in _OPENERS.items()}
