"""Encoded images as byte ranges of larger files, such as the members of a tar archive."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.memory import Slices
from gpufeed._util.open_regular import EmptyFileError, FileTooLongError
from gpufeed._util.urls import location
from gpufeed.source.base import Saved, as_file
from gpufeed.source.buffers import BufferStorage
from gpufeed.source.locate import Root
from gpufeed.source.saved_files import find_files, save_files
from gpufeed.source.storage import LocalStorage, Ranges, Stamp, StoredRange
from gpufeed.source.stored import StoredSource

__all__ = ["RangeSource"]

Int64 = npt.NDArray[np.int64]


class RangeSource(StoredSource):
    """Byte ranges of files, each an encoded image.

    Args:
        storage: has the files.
        files: their paths.
        stamps: for each file, the stamp that it must still have when it is read.
        which: int (n,), the index of the file that each key's image is in.
        starts: int64 (n,), the image's first byte.
        lengths: int64 (n,), the image's number of bytes; negative if there is none.
        names: String (n,), the image's name in its file.

    Attributes:
        lengths: as given.
    """

    def __init__(
        self,
        storage: Ranges,
        files: Sequence[str],
        stamps: Sequence[Stamp],
        which: npt.NDArray[np.integer],
        starts: Int64,
        lengths: Int64,
        names: pl.Series,
    ) -> None:
        super().__init__(len(names))
        self.storage = storage
        self.files = tuple(files)
        self.stamps = tuple(stamps)
        self.names = names
        self._which = which
        self._starts = starts
        self.lengths = lengths

    def to_saved(self) -> Saved | None:
        """Return what `from_saved` takes; None if the files are in memory, for example."""
        about = save_files(self.storage, self.files, self.stamps)
        if about is None:
            return None
        numbers = {"file": self._which.astype(np.int32), "start": self._starts}
        columns = pl.DataFrame({**numbers, "length": self.lengths, "name": self.names})
        return Saved(about, columns)

    @classmethod
    def from_saved(cls, about: dict[str, Any], columns: pl.DataFrame, root: Root | None) -> Self:
        """Return the source that was saved; arguments and errors as for `find_files`."""
        which, starts, lengths = (columns[name].to_numpy() for name in ("file", "start", "length"))
        return cls(*find_files(about, root), which, starts, lengths, columns["name"])

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"RangeSource({len(self)} images in {len(self.files)} files of {self.storage!r})"

    def read(self, keys: Int64) -> list[bytes | memoryview | OSError]:
        """Read images: see `Source`."""
        ranges = self._ranges(keys)
        fit = [each for each in ranges if not isinstance(each, OSError)]
        read = self.storage.read(fit)
        if len(fit) == len(ranges):
            return read
        contents = iter(read)
        return [each if isinstance(each, OSError) else next(contents) for each in ranges]

    @property
    def start(self) -> Callable[[Int64, float | None], Future[Any]] | None:
        """A function that starts to read images: see `Source`; None if the storage has none."""
        start = getattr(self.storage, "start", None)
        if start is None:
            return None
        return lambda keys, seconds: start(self._ranges(keys), seconds)

    def _ranges(self, keys: Int64) -> list[StoredRange | OSError]:
        """Return the ranges to read; an error for those that are not read."""
        return [
            StoredRange(self.files[file], start, length, self.stamps[file])
            if 0 < length <= limit
            else _not_read(length, limit)
            for file, start, length, limit in zip(
                self._which[keys].tolist(),
                self._starts[keys].tolist(),
                self.lengths[keys].tolist(),
                self.most_bytes(keys),
                strict=True,
            )
        ]

    def name(self, key: int) -> str:
        """Return the name of the image in its file, after the file's: see `Source`."""
        return f"{self.storage.name(self.files[self._which[key]])}/{self.names[key]}"

    def place(self, key: int) -> StoredRange:
        """Return where an image is."""
        file, start, length = self._which[key], int(self._starts[key]), int(self.lengths[key])
        return StoredRange(self.files[file], start, length, self.stamps[file])

    def open(self, key: int) -> BinaryIO:
        """Open an image: see `Source`."""
        return as_file(*self.read(np.array([key], dtype=np.int64)))

    def reusing_memory(self, slices: Slices) -> Self:
        """Return a source of the same images that reads short ones into slices of memory."""
        if not isinstance(self.storage, LocalStorage):
            return self
        reusing = copy.copy(self)
        reusing.storage = self.storage.reusing_memory(slices)
        return reusing

    def take(self, keys: Int64) -> Self:
        """Return a source of the images of `keys`, in their order, repeats included."""
        taken = super().take(keys)
        taken.names = self.names.gather(keys)
        taken._which = self._which[keys]
        taken._starts = self._starts[keys]
        taken.lengths = self.lengths[keys]
        return taken

    def places(self) -> tuple[Path | str, pl.Series] | None:
        """Return the root, and the file and first byte of each image: see `StoredSource`."""
        buffers = isinstance(self.storage, BufferStorage)
        if buffers or not all(stamp.version for stamp in self.stamps):
            return None
        files = pl.Series(self.files, dtype=pl.String).gather(self._which)
        starts = pl.Series(self._starts).cast(pl.String)
        return location(self.storage.name("")), files + " " + starts

    def stamp(self, key: int) -> tuple[int, int]:
        """Return an image's number of bytes, and a number that changes with its file's stamp."""
        return int(self.lengths[key]), self.stamps[self._which[key]].numbers()[1]

    def fingerprint(self) -> str:
        """Return a digest of all ranges and of the files' names and stamps: see `Source`."""
        names = [self.storage.name(file) for file in self.files]
        digest = hashlib.sha256(repr((names, self.stamps)).encode())
        for values in (self._which, self._starts, self.lengths):
            digest.update(values.astype(np.int64).tobytes())
        return digest.hexdigest()


def _not_read(length: int, limit: int) -> OSError:
    if length <= 0:
        return EmptyFileError("the image is null" if length < 0 else "the image is empty")
    return FileTooLongError(f"the image has {length:,} bytes; the limit is {limit:,}")
