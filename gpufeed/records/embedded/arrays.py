"""Where the values of an Arrow array of images are, within its buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed.source.buffers import BufferStorage
from gpufeed.source.ranges import RangeSource
from gpufeed.source.storage import Storage

__all__ = ["array_source", "detached", "is_mapped", "path_field", "roots_of"]

Int64 = npt.NDArray[np.int64]

_VIEW = np.dtype([("length", "<i4"), ("prefix", "<i4"), ("buffer", "<i4"), ("offset", "<i4")])
_INLINE = 12
"""The longest value that a view itself holds."""


def array_source(
    arrays: Sequence[Any],
    names: pl.Series,
    storage: Storage | None = None,
    mapped: Mapping[int, str] | None = None,
) -> RangeSource:
    """Return the images of Arrow arrays, one after the other; nothing is copied.

    Args:
        arrays: of pyarrow, binary or structs with a binary field `bytes`.
        names: the images' names.
        storage: has the files that the arrays were mapped from, if they all were. They are read,
            not mapped, since a process that meets the end of a file it has mapped is killed.
        mapped: the paths of these files by the address at which each is mapped.

    Raises:
        ValueError: the offsets of an array point outside of its buffers.
    """
    buffers: list[Any] = []
    which, starts, lengths = [], [], []
    for array in arrays:
        own, buffer, start, length = _locate(array)
        there = length >= 0
        ends = np.array([each.size for each in own], np.int64)[buffer[there]]
        if ((start[there] < 0) | (start[there] + length[there] > ends)).any():
            raise ValueError("an image is outside of its buffer")
        which.append(buffer + len(buffers))
        starts.append(start)
        lengths.append(length)
        buffers += own
    file, start, length = (np.concatenate(each) for each in (which, starts, lengths))
    if storage is None or mapped is None:
        kept, files = BufferStorage(buffers), [str(number) for number in range(len(buffers))]
        stamps = [kept.stamp(each) for each in files]
        return RangeSource(kept, files, stamps, file, start, length, names)
    files = sorted(set(mapped.values()))
    number_of = {file: number for number, file in enumerate(files)}
    roots = [_root(each).address for each in buffers]
    bases = [each.address - root for each, root in zip(buffers, roots, strict=True)]
    numbers = [number_of[mapped[root]] if root in mapped else 0 for root in roots]
    if buffers:
        start = start + np.array(bases, np.int64)[file]
        file = np.array(numbers, np.int64)[file]
    stamps = [storage.stamp(file) for file in files]
    return RangeSource(storage, files, stamps, file, start, length, names)


def is_mapped(array: Any, mapped: Mapping[int, str]) -> bool:
    """Return whether all values of an array are in files that are mapped at these addresses."""
    return all(_root(each).address in mapped for each in _locate(array)[0] if each.size)


def roots_of(array: Any) -> set[int]:
    """Return the addresses of the buffers that those of an array are slices of."""
    return {_root(each).address for each in _locate(array)[0]}


def _root(buffer: Any) -> Any:
    """Return the buffer that a buffer is a slice of, such as a file that is mapped."""
    while buffer.parent is not None:
        buffer = buffer.parent
    return buffer


def _locate(array: Any) -> tuple[list[Any], Int64, Int64, Int64]:
    """Return an array's buffers; and for each value its buffer, start and length; -1 for null."""
    import pyarrow as pa

    null = array.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_struct(array.type):
        array = array.field("bytes")
        null = null | array.is_null().to_numpy(zero_copy_only=False)
    count, first = len(array), array.offset
    if null.all():
        return [], *np.zeros((2, count), np.int64), np.full(count, -1)
    _, index, *buffers = array.buffers()
    if pa.types.is_binary_view(array.type):
        views = np.frombuffer(index, _VIEW, count, first * _VIEW.itemsize)
        inline = views["length"] <= _INLINE
        places = (first + np.arange(count)) * _VIEW.itemsize + 4
        buffers = [index, *buffers]
        which = np.where(inline, 0, views["buffer"] + 1).astype(np.int64)
        starts = np.where(inline, places, views["offset"])
        lengths = views["length"].astype(np.int64)
    else:
        dtype = np.dtype("<i8" if pa.types.is_large_binary(array.type) else "<i4")
        offsets = np.frombuffer(index, dtype, count + 1, first * dtype.itemsize).astype(np.int64)
        which = np.zeros(count, np.int64)
        starts, lengths = offsets[:-1], np.diff(offsets)
    return buffers, which, starts, np.where(null, -1, lengths)


def path_field(arrays: Sequence[Any]) -> pl.Series | None:
    """Return the field `path` of structs, as String; None if they have none, or are no structs."""
    import pyarrow as pa

    if not arrays or "path" not in getattr(arrays[0].type, "names", ()):
        return None
    fields = [pl.Series(array.field("path").cast(pa.large_string())) for array in arrays]
    return detached(pl.concat(fields).to_frame("path"))["path"].cast(pl.String)


def detached(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a copy of a frame that needs no file, as one does whose columns are mapped."""
    return pl.read_ipc(frame.write_ipc(None).getvalue())
