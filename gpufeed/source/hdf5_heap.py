"""Values of variable length in an HDF5 file, read without HDF5, which believes their lengths."""

from __future__ import annotations

import os
import struct
from typing import Any

__all__ = ["HeapValues"]

_REFERENCE = struct.Struct("<IQI")
"""Of a value: its length, the address of a collection of values, and its index in there."""
_COLLECTION = struct.Struct("<4sB3xQ")
"""The head of a collection: a signature, a version and its length."""
_OBJECT = struct.Struct("<HHIQ")
"""The head of a value in a collection: its index, two unused numbers, and its length."""
_MOST = 1 << 16
"""Values that a collection has at most."""


class HeapValues:
    """The values of a dataset, uint8 (n,) of variable length.

    HDF5 allocates whatever length a value claims, and follows a damaged collection for ever.

    Args:
        dataset: the dataset, of h5py.

    Attributes:
        is_plain: whether `read` can read them; HDF5 can read others, such as compressed ones.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        file = dataset.file.id.get_create_plist()
        created = dataset.id.get_create_plist()
        self._offset: int | None = dataset.id.get_offset()
        self._chunk: int = dataset.chunks[0] if dataset.chunks else 0
        stored = self._offset is not None or self._chunk > 0
        self.is_plain: bool = stored and file.get_sizes() == (8, 8) and not created.get_nfilters()
        self._base: int = file.get_userblock()
        self._descriptor: int = dataset.file.id.get_vfd_handle()

    def read(self, key: int) -> bytes:
        """Read a value.

        Raises:
            OSError: the file is damaged.
        """
        length, address, index = _REFERENCE.unpack(self._reference(key))
        if not length:
            return b""
        start = self._base + address
        signature, version, size = _COLLECTION.unpack(self._bytes(start, _COLLECTION.size))
        if (signature, version) != (b"GCOL", 1):
            raise OSError(f"there are no values at byte {start:,}, where HDF5 refers to one")
        place = start + _COLLECTION.size
        for _ in range(_MOST):
            if place + _OBJECT.size > start + size:
                break
            found, _, _, own = _OBJECT.unpack(self._bytes(place, _OBJECT.size))
            place += _OBJECT.size
            if found == index:
                if own < length:
                    break
                return self._bytes(place, length)
            place += -(-own // 8) * 8
        raise OSError(f"the value of {length:,} bytes is not at byte {start:,}, as HDF5 says")

    def _reference(self, key: int) -> bytes:
        if self._offset is not None:
            return self._bytes(self._offset + _REFERENCE.size * key, _REFERENCE.size)
        within = key % self._chunk
        try:
            _, chunk = self._dataset.id.read_direct_chunk((key - within,))
        except (RuntimeError, ValueError) as error:
            raise OSError(str(error)) from None
        start = _REFERENCE.size * within
        reference: bytes = bytes(chunk)[start : start + _REFERENCE.size]
        if len(reference) < _REFERENCE.size:
            raise OSError(f"the chunk of value {key} ends before it")
        return reference

    def _bytes(self, start: int, length: int) -> bytes:
        stop, end = start + length, os.fstat(self._descriptor).st_size
        if stop > end:
            raise OSError(f"the file ends at byte {end:,}, but HDF5 refers to byte {stop:,}")
        return os.pread(self._descriptor, length, start)
