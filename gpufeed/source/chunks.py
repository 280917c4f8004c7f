"""Byte ranges of files that are compressed in chunks, such as the pages of Parquet."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.source.storage import Ranges, StoredRange

__all__ = ["CODECS", "SHARED_BYTES", "SNAPPY", "ChunkStorage", "Chunks"]

CODECS = ("none", "snappy", "gzip", "brotli", "zstd", "lz4_raw")
"""Compressions, by their numbers in `Chunks`."""
SNAPPY = CODECS.index("snappy")
SHARED_BYTES = 1 << 21
"""Chunks that are longer, decompressed, are kept for the next reads of them."""
_KEPT_BYTES = 1 << 28
"""Decompressed bytes of such chunks that are kept."""

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Chunks:
    """The chunks of a file. Decompressed, one after the other, they are what is read.

    A range may extend over several chunks only if these are of Snappy and follow one another in
    the file.

    Attributes:
        begins: int64 (n + 1,), where each chunk begins, decompressed, and where the last one ends.
        offsets: int64 (n,), where it begins in the file.
        sizes: int64 (n,), its number of bytes in the file.
        codecs: uint8 (n,), indices into `CODECS`.
    """

    begins: Int64
    offsets: Int64
    sizes: Int64
    codecs: npt.NDArray[np.uint8]


class ChunkStorage:
    """`Ranges` that are decompressed after they were read from others.

    Args:
        storage: has the files as they are stored.
        chunks: the chunks of those files that are compressed, by their paths. Ranges of these
            count decompressed bytes.
    """

    def __init__(self, storage: Ranges, chunks: Mapping[str, Chunks]) -> None:
        self.storage = storage
        self.chunks = chunks
        self._kept = _Kept()

    def __repr__(self) -> str:
        return f"ChunkStorage({self.storage!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"storage": self.storage, "chunks": self.chunks}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def read(self, ranges: Sequence[StoredRange]) -> list[bytes | memoryview | OSError]:
        """Read ranges of the decompressed files: see `Ranges`."""
        parts = [self._part(each) for each in ranges]
        at_once = [part.stored for part in parts if not part.shared]
        read = iter(self.storage.read(at_once))
        return [
            self._read_shared(part) if part.shared else _cut(part, next(read)) for part in parts
        ]

    def _part(self, wanted: StoredRange) -> _Part:
        """Return where a range is stored."""
        chunks = self.chunks.get(wanted.path)
        if chunks is None:
            return _Part(wanted, 0, 0, 0, wanted.length)
        end = wanted.start + wanted.length
        first = int(np.searchsorted(chunks.begins, wanted.start, "right")) - 1
        last = int(np.searchsorted(chunks.begins, end, "left")) - 1
        begin, codec = int(chunks.begins[first]), int(chunks.codecs[first])
        start, offset = wanted.start - begin, int(chunks.offsets[first])
        if not codec:
            stored = wanted._replace(start=offset + start)
            return _Part(stored, codec, wanted.length, 0, wanted.length)
        stored = wanted._replace(
            start=offset, length=int(chunks.offsets[last] + chunks.sizes[last]) - offset
        )
        return _Part(stored, codec, int(chunks.begins[last + 1]) - begin, start, wanted.length)

    def _read_shared(self, part: _Part) -> bytes | OSError:
        """Read from a long chunk, which is decompressed once for all who ask for it together."""
        chunk = self._kept.get((part.stored.path, part.stored.start))
        with chunk.lock:
            if chunk.content is None:
                (stored,) = self.storage.read([part.stored])
                content = _decompress(part, stored)
                if isinstance(content, OSError):
                    return content
                chunk.content = content
                self._kept.shrink()
            # A view would keep all of the chunk for as long as the batch.
            return bytes(chunk.content[part.start : part.start + part.length])

    def name(self, path: str) -> str:
        """Return a file's name: see `Ranges`."""
        return self.storage.name(path)


@dataclass(frozen=True)
class _Part:
    """Where a range is: within one chunk, or several of Snappy.

    Attributes:
        stored: the range of the file that holds the chunks.
        codec: index into `CODECS`.
        total: the chunks' number of decompressed bytes.
        start: the first of these that is wanted.
        length: how many are.
    """

    stored: StoredRange
    codec: int
    total: int
    start: int
    length: int

    @property
    def shared(self) -> bool:
        """Whether so much is decompressed for it that it is worth keeping."""
        return bool(self.codec) and self.total - self.length > SHARED_BYTES


def _cut(part: _Part, stored: bytes | memoryview | OSError) -> bytes | memoryview | OSError:
    content = _decompress(part, stored)
    if isinstance(content, OSError) or not part.codec:
        return content
    return content[part.start : part.start + part.length]


def _decompress(part: _Part, stored: bytes | memoryview | OSError) -> memoryview | OSError | Any:
    """Return the decompressed chunks, or the error that says why they are not."""
    if isinstance(stored, OSError) or not part.codec:
        return stored
    from pyarrow import Codec

    if part.codec == SNAPPY:
        stored = b"".join((_varint(part.total), stored))
    try:
        return memoryview(Codec(CODECS[part.codec]).decompress(stored, part.total)).cast("B")
    except (OSError, ValueError) as error:
        return OSError(f"cannot be decompressed: {error}")


def _varint(number: int) -> bytes:
    """Return a number as Snappy has it, in groups of seven bits."""
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


class _Chunk:
    """A decompressed chunk, once its first reader has it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.content: memoryview | None = None


class _Kept:
    """The chunks that were read last, up to a number of bytes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chunks: OrderedDict[tuple[str, int], _Chunk] = OrderedDict()

    def get(self, key: tuple[str, int]) -> _Chunk:
        with self._lock:
            chunk = self._chunks.setdefault(key, _Chunk())
            self._chunks.move_to_end(key)
            return chunk

    def shrink(self) -> None:
        """Forget the chunks that were read longest ago, but never the last."""
        with self._lock:
            total = sum(len(each.content or b"") for each in self._chunks.values())
            while total > _KEPT_BYTES and len(self._chunks) > 1:
                _, oldest = self._chunks.popitem(last=False)
                total -= len(oldest.content or b"")
