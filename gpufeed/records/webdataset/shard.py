"""Reads what is in one tar shard: where its members are, and the sizes of its images."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import polars as pl

from gpufeed._util.sanitize import sanitize
from gpufeed.decode.headers import image_header
from gpufeed.errors import ManifestError
from gpufeed.records.webdataset.wanted import Wanted
from gpufeed.source.archives import TAR, ZIP, archive_kind
from gpufeed.source.storage import Stamp, Storage
from gpufeed.source.window import Window

__all__ = ["BLOCK", "SCHEMA", "is_sound", "read_shard"]

SCHEMA = {
    "key": pl.String,
    "extension": pl.String,
    "name": pl.String,
    "start": pl.Int64,
    "length": pl.Int64,
    "width": pl.Int32,
    "height": pl.Int32,
    "bits": pl.Int32,
    "problem": pl.String,
}
"""The columns of a shard's index."""
_NAME = re.compile(r"((?:.*/)?[^./]+)\.([^/]*)", re.DOTALL)
"""A member's name: the key of its sample and its extension. Hidden files are no members."""
_META = re.compile(r"__[^/]*__($|/)")
"""Members that WebDataset skips."""
BLOCK = 512
"""Bytes of a header, and of a tar's unit."""
_MAX_HEADER = 1 << 16
_FAILURES = (tarfile.TarError, ValueError, ArithmeticError, LookupError, RecursionError)
"""What tarfile raises for damaged headers."""
_SHOWN = 8
"""Extensions of a sample that an error lists."""


def read_shard(storage: Storage, shard: str, stamp: Stamp, image: Wanted) -> pl.DataFrame:
    """Return the index of a shard.

    Its first row is for the shard. A row for each sample follows, which has no `extension` and says
    where the image is, and after it a row for each of its other members. `problem` says what is
    wrong with the shard, the image or the member. If the shard ends too soon or is damaged, the
    samples are those before.

    Args:
        storage: has the shard.
        shard: its path.
        stamp: its stamp.
        image: the members that are images.

    Raises:
        ManifestError: the shard is compressed or another kind of archive.
        OSError: it cannot be read.
    """
    rows: list[dict[str, Any]] = []
    row: dict[str, Any] = {}
    seen: set[str] = set()
    with storage.open(shard) as file:
        _check_kind(file, storage.name(shard))
        archive = _Archive(file, stamp.length)
        for key, members in _samples(archive):
            row = {"key": key}
            rows.append(row)
            extension = image.find(members)
            try:
                if key in seen:
                    raise ValueError("there are members of it elsewhere, with others between them")
                seen.add(key)
                if extension is None:
                    shown = ", ".join(list(members)[:_SHOWN])
                    raise ValueError(f"it has no image (no member {image}), but {shown}")
                row |= _place(members, extension)
                row |= _read_size(file, row["start"], row["length"])
            except (ValueError, OSError) as error:
                row["problem"] = str(error)
            rows += [
                {"key": key, "extension": each, **_place_or_problem(members, each)}
                for each in members
                if each != extension
            ]
        if archive.problem and row:
            row["problem"] = "it is the last one of a shard that ends too soon or is damaged"
    return pl.DataFrame([{"problem": archive.problem}, *rows], schema=SCHEMA)


def is_sound(index: pl.DataFrame, length: int) -> bool:
    """Return whether an index may be that of a shard of `length` bytes."""
    start, size = pl.col("start"), pl.col("length")
    inside = start.is_between(0, length) & size.is_between(0, length - start)
    sized = (pl.col("width") > 0) & (pl.col("height") > 0) & (pl.col("bits") > 0)
    good = inside & (pl.col("extension").is_not_null() | (pl.col("name").is_not_null() & sized))
    sound = pl.col("key").is_not_null() & (pl.col("problem").is_not_null() | good)
    of_shard = pl.all_horizontal(pl.col("key", "extension").is_null())
    checked = pl.when(pl.int_range(pl.len()) == 0).then(of_shard).otherwise(sound)
    return bool(index.select(checked.fill_null(False).all()).item())


def _check_kind(file: BinaryIO, name: str) -> None:
    kind = archive_kind(file.read(BLOCK))
    if kind == ZIP:
        raise ManifestError(
            f"{name} is a zip archive, not a tar; read_folder and read_table take it"
        )
    if kind not in (None, TAR):
        raise ManifestError(
            f"{name} is {kind}, so no image in it can be read by itself; unpack it to a plain tar"
        )
    file.seek(0)


class _Archive:
    """Iterates over the regular files of a tar archive.

    Attributes:
        problem: where it ends too soon or is damaged, found at the end of the iteration.
    """

    def __init__(self, file: BinaryIO, length: int) -> None:
        self._file = file
        self._length = length
        self.problem: str | None = None

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        offset = 0
        try:
            archive = tarfile.TarFile(
                fileobj=_Headers(self._file),  # type: ignore[arg-type]
                encoding="utf-8",
                errors="backslashreplace",
            )
            while (member := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # it keeps all
                if archive.offset <= offset or member.size < 0:
                    raise tarfile.ReadError("invalid header")
                if member.isreg():
                    if archive.offset > self._length:
                        raise tarfile.ReadError("unexpected end of data")
                    yield member
                offset = archive.offset
        except _FAILURES as error:
            cut = "end" in str(error) or not self._length
            self.problem = _problem(offset, "unexpected end" if cut else sanitize(str(error)))
            return
        # Its own end is two blocks of zeros; tarfile also ends at a header that is damaged.
        self._file.seek(offset)
        block = self._file.read(BLOCK)
        if len(block) < BLOCK:
            self.problem = _problem(offset, "unexpected end")
        elif any(block):
            self.problem = _problem(offset, "invalid header")


def _problem(offset: int, what: str) -> str:
    return f"{what} after byte {offset:,}"


class _Headers:
    """What tarfile reads headers from; one of gigabytes would take as much memory."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek, self.tell = file.seek, file.tell
        self._read = file.read

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MAX_HEADER:
            raise tarfile.ReadError(f"a header of {size:,} bytes")
        return self._read(size)


Member = tarfile.TarInfo | None
"""None if there are two of its name."""


def _samples(archive: _Archive) -> Iterator[tuple[str, dict[str, Member]]]:
    """Group the members that follow one another by key, as WebDataset does.

    Yields:
        The key, and the members by their extensions.
    """
    key: str | None = None
    members: dict[str, Member] = {}
    for member in archive:
        named = _NAME.fullmatch(member.name)
        if named is None or _META.match(member.name):
            continue
        if named[1] != key:
            if key is not None:
                yield key, members
            key, members = named[1], {}
        extension = named[2].lower()
        members[extension] = None if extension in members else member
    if key is not None:
        yield key, members


def _place(members: dict[str, Member], extension: str) -> dict[str, Any]:
    """Return the name of a member, and where it is.

    Raises:
        ValueError: there are two, or it is not there as it is.
    """
    member = members[extension]
    if member is None:
        raise ValueError(f"it has two members {extension}")
    if member.issparse():
        raise ValueError(f"its member {extension} is a sparse file")
    return {"name": member.name, "start": member.offset_data, "length": member.size}


def _place_or_problem(members: dict[str, Member], extension: str) -> dict[str, Any]:
    try:
        return _place(members, extension)
    except ValueError as error:
        return {"problem": str(error)}


def _read_size(file: BinaryIO, start: int, length: int) -> dict[str, int]:
    """Return the size of the image in a part of a file, and its bits per channel."""

    def read(at: int, length: int) -> bytes:
        file.seek(start + at)
        return file.read(length)

    header = image_header(Window(read, length))  # type: ignore[arg-type]
    return {"width": header.width, "height": header.height, "bits": header.bits}
