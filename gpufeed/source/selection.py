"""Images of several sources: all of them, one source after the other, or a selection."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, BinaryIO, Self, get_args

import numpy as np
import numpy.typing as npt

from gpufeed._util.memory import Slices
from gpufeed.source.base import (
    Content,
    Source,
    check_read,
    fetcher,
    fingerprint_of,
    open_image,
    read_images,
    starter,
)
from gpufeed.source.files import FileSource
from gpufeed.source.ranges import RangeSource
from gpufeed.source.remote.loop import event_loop
from gpufeed.source.stored import StoredSource
from gpufeed.source.timeout import Timeout
from gpufeed.source.zipped import ZipSource

__all__ = ["Joined", "Selection", "join", "reusing_memory", "take"]

_REUSING = FileSource | RangeSource | ZipSource
"""Those that read files of this machine."""

Int64 = npt.NDArray[np.int64]


class Joined:
    """Images of sources, one source after the other.

    Args:
        sources: at least one source.
        counts: the number of images of each, which are its first ones.
    """

    def __init__(self, sources: Sequence[Source], counts: Sequence[int]) -> None:
        self._ends = np.cumsum(counts)
        self._set(sources)

    def _set(self, sources: Sequence[Source]) -> None:
        self.sources = tuple(sources)
        self._fetchers = [fetcher(source) for source in sources]
        # None where no source wants to know: finding out what comes next is not free.
        self.fetch = self._fetch if any(self._fetchers) else None
        self._readers: dict[tuple[int, int, float | None], Timeout] = {}

    def of_others(self, sources: Sequence[Source]) -> Self:
        """Return the images of the same keys in other sources."""
        changed = copy.copy(self)
        changed._set(sources)
        return changed

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_readers": {}}

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} images of {', '.join(map(repr, self.sources))})"

    def find(self, keys: Int64) -> tuple[npt.NDArray[np.integer], Int64]:
        """Return the index of the source of each key's image, and the image's key there."""
        which = np.searchsorted(self._ends, keys, "right")
        return which, keys - np.append(0, self._ends)[which]

    def _find_one(self, key: int) -> tuple[Source, int]:
        which, inner = self.find(np.array([key]))
        return self.sources[which[0]], int(inner[0])

    def _parts(self, keys: Int64) -> Iterator[tuple[int, Int64, Int64]]:
        """Yield the sources of keys by their indices: the places of their keys, and keys there."""
        which, inner = self.find(keys)
        for index in np.unique(which).tolist():
            places = np.flatnonzero(which == index)
            yield index, places, inner[places]

    def read(self, keys: Int64) -> list[Content | OSError]:
        """Read images: see `Source`."""
        return _merged(
            (places, read_images(self.sources[index], inner))
            for index, places, inner in self._parts(keys)
        )

    @property
    def start(self) -> Callable[[Int64, float | None], Future[Any]] | None:
        """A function that starts to read images: see `Source`; None if no source has one.

        Sources without one are read on threads meanwhile.
        """
        return self._start if any(map(starter, self.sources)) else None

    def _start(self, keys: Int64, seconds: float | None) -> Future[list[Content | OSError]]:
        loop = event_loop()
        parts = [*self._parts(keys)]
        begun = [self._start_part(index, inner, seconds) for index, _, inner in parts]

        async def finish(index: int, inner: Int64, images: Future[Any] | Timeout) -> Any:
            if isinstance(images, Future):
                found = await asyncio.wrap_future(images)
                return check_read(self.sources[index], lambda: found, inner)
            try:
                return await loop.loop.run_in_executor(None, images.read, inner)
            except asyncio.CancelledError:
                images.cancel()
                raise

        async def finish_all() -> list[Content | OSError]:
            read = await asyncio.gather(
                *(
                    finish(index, inner, images)
                    for (index, _, inner), images in zip(parts, begun, strict=True)
                )
            )
            return _merged(zip((places for _, places, _ in parts), read, strict=True))

        return loop.start(finish_all())

    def _start_part(
        self, index: int, keys: Int64, seconds: float | None
    ) -> Future[Sequence[Content | OSError]] | Timeout:
        """Start to read images of one source; or return what reads them on threads."""
        source = self.sources[index]
        if (start := starter(source)) is not None:
            return start(keys, seconds)
        known = os.getpid(), index, seconds  # threads do not survive a fork
        if known not in self._readers:
            self._readers[known] = Timeout(source, math.inf if seconds is None else seconds)
        return self._readers[known].share()

    def close(self) -> None:
        """Stop the threads, and close the connections; reading again makes new ones."""
        for reader in list(self._readers.values()):
            reader.close()
        self._readers.clear()
        for source in self.sources:
            if starter(source) and callable(close := getattr(source, "close", None)):
                close()

    def name(self, key: int) -> str:
        """Return an image's name: see `Source`."""
        source, inner = self._find_one(key)
        return source.name(inner)

    def open(self, key: int) -> BinaryIO:
        """Open an image: see `Source`."""
        return open_image(*self._find_one(key))

    def fingerprint(self) -> str | None:
        """Return a digest of the sources' own and of the keys; None if a source has none."""
        parts = [fingerprint_of(source) for source in self.sources]
        if None in parts:
            return None
        digest = hashlib.sha256(repr(parts).encode())
        self._add_keys(digest.update)
        return digest.hexdigest()

    def _add_keys(self, add: Callable[[bytes], None]) -> None:
        add(self._ends.tobytes())

    def _fetch(self, keys: Int64) -> None:
        for index, _, inner in self._parts(keys):
            fetch = self._fetchers[index]
            if fetch is not None:
                fetch(inner)


class Selection(Joined):
    """Images selected from sources, in any order.

    Args:
        sources: at least one source.
        which: int (n,), index of the source that holds each key's image.
        keys: int64 (n,), the image's key in that source.
    """

    def __init__(
        self, sources: Sequence[Source], which: npt.NDArray[np.integer], keys: Int64
    ) -> None:
        self._which = which.astype(np.min_scalar_type(len(sources)))
        self._keys = keys
        self._set(sources)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, keys: Int64) -> tuple[npt.NDArray[np.integer], Int64]:
        """Return the index of the source of each key's image, and the image's key there."""
        return self._which[keys], self._keys[keys]

    def _add_keys(self, add: Callable[[bytes], None]) -> None:
        add(self._which.tobytes())
        add(self._keys.tobytes())


def _merged(
    parts: Iterator[tuple[Int64, Sequence[Content | OSError]]],
) -> list[Content | OSError]:
    """Return the images of all parts, each of which says at which places they are."""
    found = {
        place: image
        for places, images in parts
        for place, image in zip(places.tolist(), images, strict=True)
    }
    return [found[place] for place in range(len(found))]


def join(sources: Sequence[Source], counts: Sequence[int]) -> Source:
    """Concatenate sources: the first `counts[i]` images of `sources[i]`, one after the other."""
    return Joined(sources, counts)


def take(source: Source, keys: Int64) -> Source:
    """Return a source of the images of `keys`, in their order, repeats included."""
    if isinstance(source, StoredSource):
        return source.take(keys)
    if isinstance(source, Joined):
        return Selection(source.sources, *source.find(keys))
    return Selection([source], np.zeros(len(keys), np.int64), keys)


def reusing_memory(source: Source, slices: Slices | None = None) -> Source:
    """Return a source of the same images; those in files are read into memory that is reused."""
    slices = slices or Slices()
    # A user's subclass may expect bytes.
    if isinstance(source, _REUSING) and type(source) in get_args(_REUSING):
        return source.reusing_memory(slices)
    if isinstance(source, Joined):
        return source.of_others([reusing_memory(each, slices) for each in source.sources])
    return source
