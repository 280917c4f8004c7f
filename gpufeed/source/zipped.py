"""Encoded images in a zip archive, each read and inflated by itself."""

from __future__ import annotations

import copy
import errno
import hashlib
import io
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.memory import Slices
from gpufeed._util.open_regular import EmptyFileError, FileTooLongError
from gpufeed._util.sanitize import sanitize
from gpufeed._util.urls import location
from gpufeed.errors import ManifestError
from gpufeed.source.archives import TAR, ZIP, archive_kind
from gpufeed.source.base import Encoded, Saved
from gpufeed.source.locate import Root, storage_of
from gpufeed.source.paths import PATH_CHARS
from gpufeed.source.ranges import RangeSource
from gpufeed.source.remote.loop import then
from gpufeed.source.storage import Storage
from gpufeed.source.stored import StoredSource
from gpufeed.source.window import Read, Window

__all__ = ["ZipSource", "open_archive"]

_HEADER = 30
"""Bytes of a member's own header, before its name and an extra field of up to 64 KB each."""
_MOST_AROUND = _HEADER + (2 << 16)
_MISSING, _STORED, _DEFLATED = -1, 0, 8
"""How a member is compressed, and that there is none."""
_ENCRYPTED = 1
_MEMBERS = ("method", "flags", "size", "checksum")
"""The names of `members` in a saved manifest."""
_PIECE = 1 << 15
"""Bytes of a file that are read at a time to find an image's size."""
_IN_URL = re.compile(r"(.*)/([^/]+\.zip)(?:/(.*))?", re.IGNORECASE | re.DOTALL)

Int64 = npt.NDArray[np.int64]
_Packed = Sequence[bytes | memoryview | OSError]
"""The bytes of files as they are in the archive."""


class ZipSource(StoredSource):
    """Files in a zip archive, each an encoded image.

    Args:
        ranges: where each key's file is in the archive, with its own header.
        paths: String (n,), the files' paths, relative to the folder.
        folder: of the archive, "" or one that ends in "/".
        members: four of int64 (n,): how each file is compressed, its flags, its length in bytes and
            its CRC-32.
    """

    def __init__(
        self, ranges: RangeSource, paths: pl.Series, folder: str, members: Sequence[Int64]
    ) -> None:
        super().__init__(len(paths))
        self.paths = paths
        self._ranges = ranges
        self._folder = folder
        self._members = members

    def to_saved(self) -> Saved | None:
        """Return what `from_saved` takes; None if the archive is neither a file nor at a URL."""
        saved = self._ranges.to_saved()
        if saved is None:
            return None
        members = dict(zip(_MEMBERS, self._members, strict=True))
        columns = saved.columns.drop("name").with_columns(path=self.paths, **members)
        return Saved({"folder": self._folder, **saved.about}, columns)

    @classmethod
    def from_saved(cls, about: dict[str, Any], columns: pl.DataFrame, root: Root | None) -> Self:
        """Return the source that was saved; arguments and errors as for `find_files`."""
        paths = columns["path"]
        ranges = RangeSource.from_saved(about, columns.with_columns(name=paths), root)
        members = [columns[name].to_numpy() for name in _MEMBERS]
        return cls(ranges, paths, about["folder"], members)

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        return f"ZipSource({self._root!r}, {len(self)} files)"

    @property
    def _root(self) -> str:
        name = self._ranges.storage.name(self._ranges.files[0])
        return f"{name}/{self._folder}".rstrip("/")

    @property
    def root(self) -> Path | str:
        """The archive as a path or URL, with the folder in it."""
        return location(self._root)

    def places(self) -> tuple[Path | str, pl.Series] | None:
        """Return the root, and the paths: see `StoredSource`."""
        return (self.root, self.paths) if self._ranges.stamps[0].version else None

    def stamp(self, key: int) -> tuple[int, int]:  # noqa: ARG002 - as `StoredSource.stamp`
        """Return the archive's length in bytes, and a number that changes with its stamp."""
        return self._ranges.stamps[0].numbers()

    def read(self, keys: Int64) -> list[Encoded | OSError]:
        """Read images: see `Source`."""
        wanted, unpack = self._wanted(keys)
        return unpack(self._ranges.read(wanted))

    @property
    def start(self) -> Callable[[Int64, float | None], Future[Any]] | None:
        """A function that starts to read images: see `Source`; None if the storage has none."""
        start_ranges = self._ranges.start
        if start_ranges is None:
            return None

        def start(keys: Int64, seconds: float | None) -> Future[list[Encoded | OSError]]:
            wanted, unpack = self._wanted(keys)
            return then(start_ranges(wanted, seconds), unpack)

        return start

    def _wanted(self, keys: Int64) -> tuple[Int64, Callable[[_Packed], list[Encoded | OSError]]]:
        """Return the keys of the files that are read, and what makes images of these files."""
        members = list(zip(*(each[keys].tolist() for each in self._members), strict=True))
        limits = self.most_bytes(keys)
        packed_bytes = (self._ranges.lengths[keys] - _MOST_AROUND).tolist()
        refused = [
            _refusal(method, flags, max(size, packed), limit)
            for (method, flags, size, _), packed, limit in zip(
                members, packed_bytes, limits, strict=True
            )
        ]

        def unpack(packed: _Packed) -> list[Encoded | OSError]:
            files = iter(packed)
            return [
                _unpack(next(files), method, size, checksum) if refusal is None else refusal
                for (method, _, size, checksum), refusal in zip(members, refused, strict=True)
            ]

        return keys[np.array([each is None for each in refused], dtype=bool)], unpack

    def name(self, key: int) -> str:
        """Return a file's path in the archive, after the archive's own: see `Source`."""
        return f"{self._root}/{self.paths[key]}"

    def open(self, key: int) -> BinaryIO:
        """Open an image: see `Source`."""
        method, flags, size, _ = (int(each[key]) for each in self._members)
        (limit,) = self.most_bytes(np.array([key]))
        if (refusal := _refusal(method, flags, size, limit)) is not None:
            raise refusal
        place, storage = self._ranges.place(key), self._ranges.storage

        def read_raw(start: int, length: int) -> bytes | memoryview:
            length = max(min(length, place.length - start), 0)
            wanted = place._replace(start=place.start + start, length=length)
            (content,) = storage.read([wanted])
            if isinstance(content, OSError):
                raise content
            return content

        first = _content_start(read_raw(0, _HEADER))

        def read(start: int, length: int) -> bytes | memoryview:
            return read_raw(first + start, length)

        if method == _DEFLATED:
            return io.BufferedReader(Window(_Inflater(read).read, size), _PIECE)
        return io.BufferedReader(Window(read, size), _PIECE)

    def find(self, paths: pl.Series) -> Self:
        """Return a source of the files at these paths; missing files are bad images."""
        number = {path: number for number, path in enumerate(self.paths)}
        keys = np.array([number.get(path, -1) for path in paths], dtype=np.int64)
        found = self.take(np.maximum(keys, 0))
        found.paths = paths
        found._members[0][keys < 0] = _MISSING
        return found

    def reusing_memory(self, slices: Slices) -> Self:
        """Return a source of the same images that reads short ones into slices of memory."""
        reusing = copy.copy(self)
        reusing._ranges = self._ranges.reusing_memory(slices)
        return reusing

    def take(self, keys: Int64) -> Self:
        """Return a source of the images of `keys`, in their order, repeats included."""
        taken = super().take(keys)
        taken.paths = self.paths.gather(keys)
        taken._ranges = self._ranges.take(keys)
        taken._members = [each[keys] for each in self._members]
        return taken

    def fingerprint(self) -> str:
        """Return a digest of all files, and of the archive's name and stamp: see `Source`."""
        digest = hashlib.sha256(self._ranges.fingerprint().encode())
        for each in self._members:
            digest.update(each.tobytes())
        return digest.hexdigest()


def _refusal(method: int, flags: int, size: int, limit: int) -> OSError | None:
    """Return why a file is not read, or None."""
    if method == _MISSING:
        return FileNotFoundError(errno.ENOENT, "there is no such file in the archive")
    if flags & _ENCRYPTED:
        return OSError("it is encrypted")
    if method not in (_STORED, _DEFLATED):
        return OSError(f"it is compressed by method {method}; write it stored or deflated")
    if size > limit:
        return FileTooLongError(f"the file has {size:,} bytes; the limit is {limit:,}")
    return EmptyFileError("the file is empty") if size == 0 else None


def _unpack(
    packed: bytes | memoryview | OSError, method: int, size: int, checksum: int
) -> Encoded | OSError:
    """Return the content of a file, given its bytes in the archive."""
    if isinstance(packed, OSError):
        return packed
    try:
        body = memoryview(packed)[_content_start(packed) :]
        content: Encoded = body[:size]
        if method == _DEFLATED:
            content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(body, size + 1)
    except (OSError, zlib.error) as error:
        return OSError(str(error))
    if len(content) != size or zlib.crc32(content) != checksum:
        return OSError("its content is not what the archive's directory says")
    return content


def _content_start(header: Encoded) -> int:
    """Return where a member's content starts, given the start of the member.

    Raises:
        OSError: its header is damaged.
    """
    if len(header) < _HEADER or header[:4] != b"PK\x03\x04":
        raise OSError("its header in the archive is damaged")
    name, extra = struct.unpack_from("<HH", header, 26)
    return _HEADER + int(name) + int(extra)


class _Inflater:
    """Reads pieces of a deflated file; a bounded part of it is in memory at a time.

    Args:
        read: reads what is packed.
    """

    def __init__(self, read: Read) -> None:
        self._packed = read
        self._restart()

    def _restart(self) -> None:
        self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)
        self._taken = self._inflated = 0

    def read(self, start: int, length: int) -> bytes:
        """Return bytes of the content: at least one, unless it ends.

        Raises:
            OSError: the archive is damaged, or cannot be read.
        """
        if start < self._inflated:
            self._restart()
        while self._inflated < start and self._next(min(start - self._inflated, _PIECE)):
            pass
        return self._next(length)

    def _next(self, length: int) -> bytes:
        while True:
            packed: bytes | memoryview = self._zlib.unconsumed_tail
            if not packed and not self._zlib.eof:
                packed = self._packed(self._taken, _PIECE)
                self._taken += len(packed)
            try:
                content = self._zlib.decompress(packed, length)
            except zlib.error as error:
                raise OSError(str(error)) from error
            if content or not packed:
                self._inflated += len(content)
                return content


def open_archive(path: str | os.PathLike[str]) -> ZipSource | None:
    """Return the files of a zip archive, or of a folder in one, in the archive's order.

    Args:
        path: "photos.zip", or "photos.zip/train" for a folder in it.

    Returns:
        The files, with paths relative to the folder; or None if the path leads to no archive.

    Raises:
        ManifestError: it leads to an archive without random access, to a damaged one, or to a
            folder that is not in it.
    """
    found = _split(path)
    if found is None:
        return None
    storage, file, folder = found
    name = sanitize(storage.name(file), PATH_CHARS)
    try:
        stamp = storage.stamp(file)
        with storage.open(file) as opened:
            kind = archive_kind(opened.read(512))
            if kind is None:
                return None
            if kind != ZIP:
                raise ManifestError(_refused(name, kind))
            with zipfile.ZipFile(opened) as archive:
                directory = archive.start_dir
                # The last of several files with one name counts, as for `unzip`.
                infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        rows = [
            (i.header_offset, i.compress_size, i.compress_type, i.flag_bits, i.file_size, i.CRC)
            for i in infos.values()
        ]
        starts, packed, *members = np.array(rows, dtype=np.int64).reshape(-1, 6).T
    except OSError as error:
        raise ManifestError(f"cannot read {name}: {error.strerror or error}") from error
    except ManifestError:
        raise
    except (zipfile.BadZipFile, NotImplementedError, ValueError, ArithmeticError) as error:
        raise ManifestError(f"{name} is not a valid zip archive: {error}") from error
    # A file's own header may be longer than the directory says, but ends before the next file.
    places = np.unique(np.append(starts, directory))
    following = np.searchsorted(places, starts, "right").clip(max=len(places) - 1)
    lengths = np.minimum(places[following] - starts, packed + _MOST_AROUND)
    paths = pl.Series("path", list(infos), dtype=pl.String)
    ranges = RangeSource(
        storage, [file], [stamp], np.zeros(len(infos), np.int8), starts, lengths, paths
    )
    source = ZipSource(ranges, paths, "", members)
    if folder:
        source = source.take(paths.str.starts_with(folder).arg_true().to_numpy())
        source.paths = source.paths.str.strip_prefix(folder)
        source._folder = folder
    if not len(source):
        raise ManifestError(f"there is no file in {name}{'/' if folder else ''}{sanitize(folder)}")
    return source


def _refused(name: str, kind: str) -> str:
    if kind == TAR:
        return f"{name} is {kind}; read_webdataset reads samples in it, or unpack it"
    return (
        f"{name} is {kind}, so no image in it can be read by itself; unpack it, or put the images "
        "into a zip archive"
    )


def _split(path: str | os.PathLike[str]) -> tuple[Storage, str, str] | None:
    """Return the storage of an archive, its path there, and the folder in it; or None."""
    where = location(path)
    if isinstance(where, str):
        parts = _IN_URL.fullmatch(where)
        if parts is None:
            return None
        storage, file, folder = storage_of(parts[1]), parts[2], parts[3] or ""
    else:
        local = Path(os.path.abspath(where))  # noqa: PTH100 - keeps links
        archive = next((each for each in (local, *local.parents) if each.is_file()), None)
        if archive is None:
            return None
        storage, file = storage_of(archive.parent), archive.name
        folder = local.relative_to(archive).as_posix().removeprefix(".")
    return storage, file, f"{folder.rstrip('/')}/" if folder else ""
