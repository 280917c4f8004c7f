"""Encoded images that are the values of an LMDB database."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.extras import import_extra
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.source.base import Saved
from gpufeed.source.locate import Root
from gpufeed.source.native import NativeFiles

__all__ = ["LmdbSource"]


class LmdbSource:
    """The values of an LMDB database, each an encoded image.

    Do not write to the database meanwhile: no locks are taken.

    Args:
        path: the database: a folder with the file `data.mdb`, or such a file.
        keys: the keys of the images, text or bytes, in the order of the records; None for all keys
            of the database, sorted as bytes.

    Raises:
        ManifestError: there is no database, it is damaged or empty, a key is missing, or the values
            are pickled.
        ConfigError: a key is neither text nor bytes.
        MissingExtraError: the package lmdb is not installed.
    """

    def __init__(
        self, path: str | os.PathLike[str], keys: Iterable[str | bytes] | None = None
    ) -> None:
        file = Path(path) / "data.mdb" if Path(path).is_dir() else Path(path)
        try:
            self._files = NativeFiles([file], _open)
            environment = self._files.open()
        except OSError as error:
            raise ManifestError(f"cannot open {file}: {error.strerror or error}") from error
        try:
            self._list(environment, file, keys)
        except _lmdb().Error as error:
            raise ManifestError(f"{file} is damaged: {error}") from error

    def _list(self, environment: Any, file: Path, keys: Iterable[str | bytes] | None) -> None:
        """Set the keys and their names; raises as `__init__` does, and errors of lmdb."""
        with environment.begin() as transaction:
            listed = transaction.cursor().iternext(values=False) if keys is None else keys
            self._keys = pl.Series([_as_bytes(key) for key in listed], dtype=pl.Binary)
            if not len(self):
                raise ManifestError(f"{file} has no images: there are no keys")
            if keys is not None:
                for number, key in enumerate(self._keys):
                    if transaction.get(key) is None:
                        raise ManifestError(f"{file} has no key {short(self.name(number))}")
            if _is_pickle(transaction.get(self._keys[0])):
                raise ManifestError(
                    f"{file}: the value of {short(self.name(0))} is a pickled object, which can "
                    "run code where it is loaded; write the encoded images themselves as values"
                )

    def to_saved(self) -> Saved:
        """Return what `from_saved` takes."""
        return Saved(self._files.to_saved(), self._keys.to_frame("key"))

    @classmethod
    def from_saved(cls, about: dict[str, Any], columns: pl.DataFrame, root: Root | None) -> Self:
        """Return the source that was saved; errors as for `NativeFiles`."""
        source = cls.__new__(cls)
        source._files = NativeFiles.from_saved(about, root, _open)
        source._keys = columns["key"]
        return source

    @property
    def names(self) -> list[str]:
        """The keys as text."""
        return [_as_text(key) for key in self._keys]

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"LmdbSource({self._files.paths[0]!r}, {len(self)} images)"

    def read(self, keys: npt.NDArray[np.int64]) -> list[bytes | OSError]:
        """Read images: see `Source`."""
        try:
            environment = self._files.open()
        except OSError as error:
            return [error.with_traceback(None)] * len(keys)
        return [_value(environment, self._keys[key]) for key in keys.tolist()]

    def name(self, key: int) -> str:
        """Return an image's key as text: see `Source`."""
        return _as_text(self._keys[key])

    def fingerprint(self) -> str:
        """Return a digest of the database's path and stamp, and of the keys: see `Source`."""
        return self._files.fingerprint(self._keys.to_list())


def _lmdb() -> Any:
    return import_extra("lmdb", extra="lmdb")


def _value(environment: Any, key: bytes) -> bytes | OSError:
    """Return a value; copied, since what LMDB maps is valid within a transaction only.

    Each is read in a transaction of its own, which is invalid after an error.
    """
    try:
        with environment.begin() as transaction:
            value: bytes | None = transaction.get(key)
    except _lmdb().Error as error:
        return OSError(str(error))
    return OSError("its key is gone") if value is None else value


def _as_bytes(key: object) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if not isinstance(key, bytes):
        raise ConfigError(f"keys has {short(key)}; keys must be text or bytes")
    return key


def _as_text(key: bytes) -> str:
    return key.decode(errors="backslashreplace")


def _is_pickle(value: bytes) -> bool:
    """Return whether bytes begin like a pickle of protocol 2 or later."""
    return value[:1] == b"\x80" and value[1:2] <= b"\x05"


_environments: weakref.WeakValueDictionary[tuple[int, int], Any] = weakref.WeakValueDictionary()
"""What is open in this process, by device and inode: LMDB opens no database twice."""
_lock = threading.Lock()


def _open(path: str) -> Any:
    """Return the environment of a file.

    Raises:
        OSError: it is not a whole database, or the user has opened it.
    """
    lmdb = _lmdb()
    status = os.stat(path)  # noqa: PTH116
    with _lock:
        place = status.st_dev, status.st_ino
        environment = _environments.get(place)
        if environment is None:
            try:
                environment = lmdb.open(
                    path, subdir=False, readonly=True, lock=False, readahead=False
                )
            except lmdb.Error as error:
                raise OSError(str(error)) from None
            pages, size = environment.info()["last_pgno"] + 1, environment.stat()["psize"]
            if pages * size > status.st_size:  # reading beyond the end would end the process
                environment.close()
                raise OSError(f"the file has {status.st_size:,} bytes of {pages * size:,}")
            _environments[place] = environment
        return environment


def _close_all() -> None:
    """Close what a forked process has inherited, so that it can open it again."""
    global _lock
    _lock = threading.Lock()
    for environment in list(_environments.values()):
        environment.close()
    _environments.clear()


os.register_at_fork(after_in_child=_close_all)
