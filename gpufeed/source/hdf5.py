"""Images in a dataset of an HDF5 file: encoded, or as pixels."""

from __future__ import annotations

import itertools
import os
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.extras import import_extra
from gpufeed._util.sanitize import short
from gpufeed.errors import ManifestError
from gpufeed.source.base import Content, Saved, as_file, as_rgb
from gpufeed.source.hdf5_heap import HeapValues
from gpufeed.source.locate import Root
from gpufeed.source.native import NativeFiles

__all__ = ["Hdf5Source", "find_images", "read_numbers"]


class Hdf5Source:
    """The items of a dataset in an HDF5 file, each an image.

    Args:
        path: the file.
        dataset: the dataset's name in it. Of type uint8: pixels, (n, height, width, 3), RGB, or
            (n, height, width), grey. Of variable length, (n,): each item is an encoded image. As
            the `source` of a `Mask` or `Depth`, (n, height, width) of other numbers or booleans.

    Raises:
        ManifestError: the file cannot be opened, has no such dataset, or it is of another type or
            shape, empty, a soft or external link, or stored in other files.
        MissingExtraError: the package h5py is not installed.
    """

    def __init__(self, path: str | os.PathLike[str], dataset: str = "images") -> None:
        try:
            self._start(NativeFiles([path], _open), dataset)
        except OSError as error:
            raise ManifestError(f"cannot open {os.fspath(path)}: {error}") from error

    def _start(self, files: NativeFiles[Any], dataset: str) -> None:
        """Open the file; raises as `__init__`, and `OSError` if it cannot be opened."""
        self.dataset = dataset
        self._files = files
        file = files.open()
        found = _dataset(file, dataset)
        self._shape: tuple[int, ...] = found.shape
        where = f"{files.paths[0]}: the dataset {short(dataset)}"
        values = found.ndim == 3 and found.dtype.kind in "biuf"
        if not (_has_images(found) or values):
            raise ManifestError(
                f"{where} is {found.dtype} {found.shape}; it must be uint8 of the shape "
                "(n, height, width, 3) or (n, height, width), or variable-length uint8 of the "
                "shape (n,), which is h5py.vlen_dtype(numpy.uint8); or, for Mask and Depth, other "
                "numbers of the shape (n, height, width)"
            )
        self._dtype = found.dtype
        if not found.size:
            raise ManifestError(f"{where} is empty: its shape is {found.shape}")

    def to_saved(self) -> Saved:
        """Return what `from_saved` takes."""
        return Saved({"dataset": self.dataset, **self._files.to_saved()}, pl.DataFrame())

    @classmethod
    def from_saved(cls, about: dict[str, Any], _: pl.DataFrame, root: Root | None) -> Self:
        """Return the source that was saved; errors as for the source and for `NativeFiles`."""
        source = cls.__new__(cls)
        files = NativeFiles.from_saved(about, root, _open)
        try:
            source._start(files, about["dataset"])
        except OSError as error:
            raise ManifestError(f"cannot open {files.paths[0]}: {error}") from error
        return source

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        return f"Hdf5Source({self._files.paths[0]!r}, {self.dataset!r}, {len(self)} images)"

    def read(self, keys: npt.NDArray[np.int64]) -> list[Content | OSError]:
        """Read images: see `Source`."""
        try:
            dataset = self._files.open()[self.dataset]
        except OSError as error:
            return [error.with_traceback(None)] * len(keys)
        if len(self._shape) == 1 and (values := HeapValues(dataset)).is_plain:
            return [_value(values, key) for key in keys.tolist()]
        return [self._read(dataset, key) for key in keys.tolist()]

    def _read(self, dataset: Any, key: int) -> Content | OSError:
        try:
            item: npt.NDArray[Any] = dataset[key]
        except (OSError, RuntimeError, ValueError) as error:  # h5py raises any of them
            return OSError(str(error))
        if item.ndim == 1:
            return item.data
        return item if item.ndim == 3 else as_rgb(item)

    def name(self, key: int) -> str:
        """Return the dataset's name and the image's index in it: see `Source`."""
        return f"{self.dataset}/{key}"

    def open(self, key: int) -> BinaryIO:
        """Open an image: see `Source`."""
        if len(self._shape) > 1:
            # An array that takes no memory: only its dtype and shape matter.
            item = np.broadcast_to(np.zeros((), self._dtype), self._shape[1:])
            return as_file(item if item.ndim == 3 else as_rgb(item))
        return as_file(*self.read(np.array([key])))

    def fingerprint(self) -> str:
        """Return a digest of the file's path and stamp, and the dataset's name: see `Source`."""
        return self._files.fingerprint(self.dataset)


def _value(values: HeapValues, key: int) -> bytes | OSError:
    try:
        return values.read(key)
    except OSError as error:
        return error.with_traceback(None)


def _open(path: str) -> Any:
    return _h5py().File(path, "r")


def _h5py() -> Any:
    return import_extra("h5py", extra="hdf5")


def find_images(path: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """Return the names of a file's datasets that hold images, and of the others.

    Raises:
        ManifestError: the file cannot be opened.
        MissingExtraError: the package h5py is not installed.
    """
    images: list[str] = []
    others: list[str] = []
    with _opened(path) as file:
        for name, item in _datasets(file):
            (images if _has_images(item) else others).append(name)
    return images, others


def read_numbers(path: str | os.PathLike[str], dataset: str) -> npt.NDArray[Any]:
    """Return the content of a dataset of numbers or text.

    Raises:
        ManifestError: the file cannot be opened, or has no such dataset of its own.
        MissingExtraError: the package h5py is not installed.
    """
    with _opened(path) as file:
        found = _dataset(file, dataset)
        text = _h5py().check_string_dtype(found.dtype) is not None
        content: npt.NDArray[Any] = (found.asstr() if text else found)[:]
    return content


def _opened(path: str | os.PathLike[str]) -> Any:
    try:
        return _open(os.fspath(path))
    except OSError as error:
        raise ManifestError(f"cannot open {os.fspath(path)}: {error}") from error


def _has_images(dataset: Any) -> bool:
    if _h5py().check_vlen_dtype(dataset.dtype) == np.uint8:
        return bool(dataset.ndim == 1)
    grey, rgb = dataset.ndim == 3, dataset.ndim == 4 and dataset.shape[3] == 3
    return bool(dataset.dtype == np.uint8 and (grey or rgb))


def _dataset(file: Any, name: str) -> Any:
    """Return a dataset that is stored in a file itself.

    Raises:
        ManifestError: there is none.
    """
    where = f"{file.filename}: the dataset {short(name)}"

    def names() -> str:
        return ", ".join(short(each) for each, _ in _datasets(file)) or "none"

    try:
        # Before it is followed: it may lead to a pipe, which would block.
        link = _is_link(file, name)
        found = None if link else file.get(name)
    except (KeyError, OSError, RuntimeError, ValueError) as error:
        raise ManifestError(f"{where} cannot be opened: {error}") from error
    if link:
        raise ManifestError(f"{where} is a link, or in a group that is one; there are {names()}")
    if not isinstance(found, _h5py().Dataset):
        raise ManifestError(f"{where} does not exist; there are {names()}")
    # A file from elsewhere may name any file of this machine.
    if found.file.filename != file.filename or found.external or found.is_virtual:
        raise ManifestError(f"{where} is stored in other files; copy it into one file")
    return found


def _is_link(file: Any, dataset: str) -> bool:
    """Return whether a name passes through a soft or external link, which is not followed."""
    names = [name for name in dataset.split("/") if name not in ("", ".")]
    for path in itertools.accumulate(names, "{}/{}".format):
        if not file.id.links.exists(path.encode()):
            return False
        if file.id.links.get_info(path.encode()).type != _h5py().h5l.TYPE_HARD:
            return True
    return False


def _datasets(file: Any) -> list[tuple[str, Any]]:
    """Return the datasets of a file, by their names."""
    found: list[tuple[str, Any]] = []

    def visit(name: str, item: Any) -> None:
        if isinstance(item, _h5py().Dataset):
            found.append((name, item))

    file.visititems(visit)
    return found
