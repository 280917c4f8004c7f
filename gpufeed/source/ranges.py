"""Encoded images as byte ranges of larger files, such as the members of a tar archive."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.memory import Slices
from gpufeed._util.open_regular import EmptyFileError, FileTooLongError
from gpufeed.source.base import as_file
from gpufeed.source.limits import Limits, no_limits
from gpufeed.source.storage import LocalStorage, Stamp, Storage, StoredRange

__all__ = ["RangeSource"]

_MAX_BYTES = 1 << 31

Int64 = npt.NDArray[np.int64]


class RangeSource:
    """Byte ranges of files, each an encoded image.

    Args:
        storage: has the files.
        files: their paths.
        stamps: for each file, the stamp that it must still have when it is read.
        which: int (n,), the index of the file that each key's image is in.
        starts: int64 (n,), the image's first byte.
        lengths: int64 (n,), the image's number of bytes; negative if there is none.
        names: String (n,), the image's name in its file.
    """

    def __init__(
        self,
        storage: Storage,
        files: Sequence[str],
        stamps: Sequence[Stamp],
        which: npt.NDArray[np.integer],
        starts: Int64,
        lengths: Int64,
        names: pl.Series,
    ) -> None:
        self.storage = storage
        self.files = tuple(files)
        self.stamps = tuple(stamps)
        self.names = names
        self._which = which
        self._starts = starts
        self._lengths = lengths
        self._limits: Limits = no_limits(len(names))

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"RangeSource({len(self)} images in {len(self.files)} files of {self.storage!r})"

    @property
    def lengths(self) -> Int64:
        """The number of bytes of each image; negative if there is none."""
        return self._lengths

    def read(self, keys: Int64) -> list[bytes | memoryview | OSError]:
        """Read images: see `Source`."""
        ranges = [
            StoredRange(self.files[file], start, length, self.stamps[file])
            for file, start, length in zip(
                self._which[keys].tolist(),
                self._starts[keys].tolist(),
                self._lengths[keys].tolist(),
                strict=True,
            )
        ]
        limits = np.minimum(self._limits[keys], _MAX_BYTES).tolist()
        fit = [0 < each.length <= limit for each, limit in zip(ranges, limits, strict=True)]
        if all(fit):
            return self.storage.read(ranges)
        read = iter(
            self.storage.read([each for each, fits in zip(ranges, fit, strict=True) if fits])
        )
        return [
            next(read) if fits else _not_read(each.length, limit)
            for each, limit, fits in zip(ranges, limits, fit, strict=True)
        ]

    def name(self, key: int) -> str:
        """Return the name of the image in its file, after the file's: see `Source`."""
        return f"{self.storage.name(self.files[self._which[key]])}/{self.names[key]}"

    def place(self, key: int) -> StoredRange:
        """Return where an image is."""
        file, start, length = self._which[key], int(self._starts[key]), int(self._lengths[key])
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
        taken = copy.copy(self)
        taken.names = self.names.gather(keys)
        taken._which = self._which[keys]
        taken._starts = self._starts[keys]
        taken._lengths = self._lengths[keys]
        taken._limits = self._limits[keys]
        return taken

    def limited(self, limits: Limits) -> Self:
        """Return a source of the same images with a limit for each."""
        limited = copy.copy(self)
        limited._limits = limits
        return limited

    def places(self) -> pl.Series:
        """Return the file and the first byte of each image, as text: String, (n,)."""
        starts = pl.Series(self._starts).cast(pl.String)
        return pl.Series(self.files, dtype=pl.String).gather(self._which) + " " + starts

    def stamp(self, key: int) -> tuple[int, int]:
        """Return an image's number of bytes, and a number that changes with its file's stamp."""
        version = hashlib.sha256(repr(self.stamps[self._which[key]]).encode()).digest()
        return int(self._lengths[key]), int.from_bytes(version[:8], "little") >> 1

    def fingerprint(self) -> str:
        """Return a digest of all ranges and of the files' names and stamps: see `Source`."""
        names = [self.storage.name(file) for file in self.files]
        digest = hashlib.sha256(repr((names, self.stamps)).encode())
        for values in (self._which, self._starts, self._lengths):
            digest.update(values.astype(np.int64).tobytes())
        return digest.hexdigest()


def _not_read(length: int, limit: int) -> OSError:
    if length <= 0:
        return EmptyFileError("the image is null" if length < 0 else "the image is empty")
    return FileTooLongError(f"the image has {length:,} bytes; the limit is {limit:,}")
