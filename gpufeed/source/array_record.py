"""Images in ArrayRecord files, as Grain and TFDS use them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.extras import import_extra
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, ManifestError, SourceError
from gpufeed.source.base import Saved
from gpufeed.source.example import Values, read_example
from gpufeed.source.locate import Root
from gpufeed.source.native import NativeFiles
from gpufeed.source.patterns import Patterns, locate
from gpufeed.source.storage import LocalStorage

__all__ = ["ArrayRecordSource"]

# Small enough for one record: what is read ahead would be of records that nobody wants.
_READING = {"options": "readahead_buffer_size:0", "file_reader_buffer_size": 1 << 15}


class ArrayRecordSource:
    """The records of ArrayRecord files, each an encoded image or an Example that has one.

    Any record is read at random. Write the files with `group_size:1`, as TFDS does: reading one
    record reads and decompresses all of its group.

    Args:
        paths: a file; a pattern, in which `{000..099}` and `{a,b}` stand for several and `*`, `?`,
            `[ab]` and `**` are wildcards, whose files are sorted; or a list of such, whose order is
            kept.
        image: the name of the feature that is the encoded image, if the records are serialized
            `tf.train.Example` messages; None if the records are encoded images themselves.

    Raises:
        ManifestError: a pattern matches nothing, or a file is missing, damaged or has no records.
        MissingExtraError: the package array_record, or protobuf for Examples, is not installed.
    """

    def __init__(self, paths: Patterns, image: str | None = None) -> None:
        self.image = image
        self._files: NativeFiles[Any]
        counts = []
        try:
            self._files = NativeFiles(_files_of(paths), _open)
            for number, _ in enumerate(self._files.paths):
                counts.append(self._files.open(number).num_records())
        except OSError as error:
            raise ManifestError(f"cannot read ArrayRecord files: {error}") from error
        self._ends = np.cumsum(counts)
        if not len(self):
            raise ManifestError(f"{self!r} has no records")

    def to_saved(self) -> Saved:
        """Return what `from_saved` takes."""
        about = {"image": self.image, "ends": self._ends.tolist(), **self._files.to_saved()}
        return Saved(about, pl.DataFrame())

    @classmethod
    def from_saved(cls, about: dict[str, Any], _: pl.DataFrame, root: Root | None) -> Self:
        """Return the source that was saved; errors as for `NativeFiles`."""
        source = cls.__new__(cls)
        source.image = about["image"]
        source._files = NativeFiles.from_saved(about, root, _open)
        source._ends = np.array(about["ends"])
        return source

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __repr__(self) -> str:
        files = self._files.paths
        return f"ArrayRecordSource({len(self)} records in {len(files)} files, {files[0]!r} first)"

    def read(self, keys: npt.NDArray[np.int64]) -> list[bytes | OSError]:
        """Read images: see `Source`."""
        return [self._read(key) for key in keys.tolist()]

    def _read(self, key: int) -> bytes | OSError:
        try:
            if self.image is None:
                return self._record(key)
            return image_of(self.example(key), self.image)
        except OSError as error:
            return error.with_traceback(None)

    def example(self, key: int) -> dict[str, Values]:
        """Return the features of a record that is an Example: their values by their names.

        Raises:
            OSError: it cannot be read, or is no Example.
        """
        try:
            return read_example(self._record(key))
        except ValueError as error:
            raise OSError(str(error)) from None

    def _record(self, key: int) -> bytes:
        number, position = self._place(key)
        reader = self._files.open(number)
        try:
            record: bytes = reader.read([position])[0]
        except RuntimeError as error:
            raise OSError(str(error)) from None
        return record

    def _place(self, key: int) -> tuple[int, int]:
        """Return the number of a record's file, and its position in the file."""
        number = int(np.searchsorted(self._ends, key, "right"))
        return number, key - (int(self._ends[number - 1]) if number else 0)

    def name(self, key: int) -> str:
        """Return the name of the record's file, and its position in the file: see `Source`."""
        number, position = self._place(key)
        return f"{Path(self._files.paths[number]).name}/{position}"

    def fingerprint(self) -> str:
        """Return a digest of the files' paths and stamps, and the feature: see `Source`."""
        return self._files.fingerprint(self.image)


def image_of(example: dict[str, Values], name: str) -> bytes:
    """Return the image of an Example.

    Raises:
        OSError: there is none.
    """
    found = example.get(name, [])
    if len(found) != 1 or not isinstance(found[0], bytes):
        raise OSError(
            f"the Example has no image in the feature {short(name)}; it has "
            f"{short(sorted(example))}"
        )
    return found[0]


def _files_of(patterns: Patterns) -> list[str]:
    storage, files = locate(patterns)
    if not isinstance(storage, LocalStorage):
        raise ConfigError(
            f"{storage.name(files[0])} is a URL, and ArrayRecord's library reads files of this "
            "machine only; copy them"
        )
    return [storage.name(file) for file in files]


_process: int | None = None
"""The process that first used the library, whose threads do not survive a fork."""


def _open(path: str) -> Any:
    """Return a reader of a file.

    Raises:
        OSError: the file is damaged.
        SourceError: this process was forked from one that has used the library.
    """
    global _process
    module = import_extra("array_record.python.array_record_module", extra="arrayrecord")
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise SourceError(
            "ArrayRecord's library crashes in a process that was forked from one that has used it; "
            'start processes with the method "spawn" or "forkserver"'
        )
    reader = module.ArrayRecordReader(path, **_READING)
    try:
        if not reader.ok():
            reader.read([0])  # which says why
    except RuntimeError as error:
        raise OSError(f"{path}: {error}") from None
    return reader
