"""The storage at a path or URL, and the images in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from gpufeed._util.rows import RowName
from gpufeed._util.urls import is_url, location, split_url
from gpufeed.errors import ManifestError
from gpufeed.source.files import FileSource, PathSource
from gpufeed.source.objects import ObjectSource
from gpufeed.source.remote.storage import RemoteStorage
from gpufeed.source.storage import LocalStorage, Stamp

__all__ = ["Root", "common_folder", "source_of", "storage_of"]

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


def _folder_of(file: str) -> str:
    return split_url(file)[0] if is_url(file) else os.path.dirname(file)  # noqa: PTH120


def common_folder(
    files: Sequence[str | os.PathLike[str]], folder_of: Callable[[str], str] = _folder_of
) -> tuple[Path | str, list[str]]:
    """Return the folder that files have in common, or its URL, and their paths below it.

    Args:
        files: each a path of this machine or a URL.
        folder_of: returns the folder of a file, given its absolute path or its URL.

    Raises:
        ManifestError: they are in different kinds of storage.
    """
    texts = [os.fspath(each) if is_url(each) else str(Path(each).absolute()) for each in files]
    schemes = {text.partition("://")[0] if is_url(text) else "" for text in texts}
    if len(schemes) > 1:
        raise ManifestError("the files are in different places; they must be below one folder")
    (scheme,) = schemes
    above = f"{scheme}://" if scheme else ""
    folders = [folder_of(text)[len(above) :] or ("" if scheme else "/") for text in texts]
    common = above + os.path.commonpath(folders)
    below = [text[len(common) :].lstrip("/") for text in texts]
    return common if scheme else Path(common), below


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
