"""The storage at a path or URL, and the images in it."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl

from gpufeed._util.rows import RowName
from gpufeed._util.urls import location
from gpufeed.source.files import FileSource, PathSource
from gpufeed.source.objects import ObjectSource
from gpufeed.source.remote.storage import RemoteStorage
from gpufeed.source.storage import LocalStorage, Stamp

__all__ = ["Root", "source_of", "storage_of"]

Root = str | os.PathLike[str] | LocalStorage | RemoteStorage
"""A folder; its URL; or its storage, such as a `RemoteStorage` with options of its own."""


def storage_of(root: Root) -> LocalStorage | RemoteStorage:
    """Return the storage of a folder or URL; a storage is returned as it is.

    Raises:
        ConfigError: nothing can read such a URL.
        MissingExtraError: a package for such URLs is not installed.
    """
    if not isinstance(root, str | os.PathLike):
        return root
    where = location(root)
    return LocalStorage(where) if isinstance(where, Path) else RemoteStorage(where)


def source_of(
    root: Root,
    paths: pl.Series,
    *,
    where: RowName = "row {}".format,
    stamps: dict[str, Stamp] | None = None,
) -> PathSource:
    """Return the source of the images that are files below a root.

    Args:
        root: their root.
        paths: the file of each key.
        where: names a row in error messages.
        stamps: of the files, by their paths, where they are known; local files need none.

    Raises:
        ManifestError: as `PathSource`.
        ConfigError: as `storage_of`.
    """
    storage = storage_of(root)
    if isinstance(storage, LocalStorage):
        return FileSource(storage.root, paths, where=where)
    return ObjectSource(storage, paths, stamps=stamps, where=where)
