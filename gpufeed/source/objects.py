"""Encoded images in files of an object store or a web server, below one URL."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.rows import RowName
from gpufeed._util.urls import is_web, public_url
from gpufeed.source.files import PathSource
from gpufeed.source.remote.storage import RemoteStorage, WholeFile
from gpufeed.source.storage import Stamp
from gpufeed.source.stored import StoredSource

__all__ = ["ObjectSource", "join_objects"]


class ObjectSource(PathSource):
    """Files below a URL, each an encoded image.

    Args:
        storage: has the files.
        paths: the file of each key, relative to the root. On a web server it may have a query
            string, which is not part of `paths` and of names.
        stamps: the stamps of the files by their paths, where they are known from a listing.
        where: as for `PathSource`.

    Raises:
        ManifestError: as `PathSource`.

    Attributes:
        root: the URL.
        paths: String, (n,).
    """

    root: str

    def __init__(
        self,
        storage: RemoteStorage,
        paths: pl.Series,
        *,
        stamps: dict[str, Stamp] | None = None,
        where: RowName = "row {}".format,
    ) -> None:
        self._files = paths
        if is_web(storage.root):
            paths = paths.str.replace(r"[?#].*$", "")
        super().__init__(paths, where=where)
        self.storage = storage
        self.root = public_url(storage.root)
        self._stamps = stamps or {}

    @classmethod
    def of_checked(cls, storage: RemoteStorage, paths: pl.Series) -> Self:
        """Return a source of files whose paths have been checked before."""
        source = cls(storage, paths.clear())
        StoredSource.__init__(source, len(paths))
        source.paths = source._files = paths
        return source

    def __repr__(self) -> str:
        return f"ObjectSource({self.root!r}, {len(self)} files)"

    def read(self, keys: npt.NDArray[np.int64]) -> list[bytes | memoryview | OSError]:
        """Read files, all at the same time: see `Source`."""
        return self.storage.read(self._wanted(keys))

    def start(
        self, keys: npt.NDArray[np.int64], seconds: float | None
    ) -> Future[list[bytes | memoryview | OSError]]:
        """Start to read files: see `Source`."""
        return self.storage.start(self._wanted(keys), seconds)

    def _wanted(self, keys: npt.NDArray[np.int64]) -> list[WholeFile]:
        return list(map(WholeFile, self._files.gather(keys).to_list(), self.most_bytes(keys)))

    def name(self, key: int) -> str:
        """Return a file's URL, without query string and credentials: see `Source`."""
        return self.storage.name(self._files[key])

    def open(self, key: int) -> BinaryIO:
        """Open a file, whose blocks are read as they are needed: see `Source`."""
        return self.storage.open(self._files[key])

    def open_stamped(self, key: int) -> tuple[BinaryIO, tuple[int, int] | None]:
        """Open a file, and return its stamp, from the same answer: see `PathSource`."""
        file, stamp = self.storage.open_stamped(self._files[key])
        return file, stamp.numbers() if stamp.version else None

    def take(self, keys: npt.NDArray[np.int64]) -> Self:
        """Return a source of the files of `keys`, in their order, repeats included."""
        taken = super().take(keys)
        taken._files = self._files.gather(keys)
        return taken

    def stamp(self, key: int) -> tuple[int, int]:
        """Return a file's length in bytes, and a number made of its ETag.

        Raises:
            OSError: the file does not exist.
        """
        file = self._files[key]
        return (self._stamps.get(file) or self.storage.stamp(file)).numbers()

    def fingerprint(self) -> str:
        """Return a digest of all files' URLs, lengths and ETags: see `Source`.

        They come from the listing if there was one; otherwise each file is requested.
        """
        files = self._files.to_list()
        unknown = [file for file in files if file not in self._stamps]
        stamps: dict[str, Stamp | OSError] = {**self._stamps}
        stamps |= dict(zip(unknown, self.storage.stamps(unknown), strict=True))
        parts = [self.root, *self.paths]
        for file in files:
            stamp = stamps[file]
            parts.append("" if isinstance(stamp, OSError) else f"{stamp.length} {stamp.version}")
        digest = hashlib.sha256("\0".join(parts).encode(errors="surrogateescape"))
        return digest.hexdigest()

    def close(self) -> None:
        """Close the connections; reading again opens new ones."""
        self.storage.close()


def join_objects(sources: Sequence[ObjectSource]) -> tuple[ObjectSource, list[str]] | None:
    """Return one source of all files, and the prefix of the paths of each source.

    None if they are not of one kind of storage with the same options.
    """
    kinds = {(each.root.partition("://")[0], repr(each.storage.options)) for each in sources}
    if len(kinds) > 1:
        return None
    scheme, _, _ = sources[0].storage.root.partition("://")
    roots = [each.storage.root.partition("://")[2].split("/") for each in sources]
    common = []
    for parts in zip(*roots, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    root = f"{scheme}://{'/'.join(common)}"
    above = ["".join(f"{part}/" for part in parts[len(common) :] if part) for parts in roots]
    storage = RemoteStorage(root, **sources[0].storage.options)
    files = pl.concat([prefix + each._files for prefix, each in zip(above, sources, strict=True)])
    stamps = {
        prefix + file: stamp
        for prefix, each in zip(above, sources, strict=True)
        for file, stamp in each._stamps.items()
    }
    return ObjectSource(storage, files, stamps=stamps), above
