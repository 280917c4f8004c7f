"""A selection of images from one or several sources."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, BinaryIO, get_args

import numpy as np
import numpy.typing as npt

from gpufeed._util.memory import Slices
from gpufeed.source.base import (
    Content,
    Source,
    fetcher,
    fingerprint_of,
    open_image,
    read_images,
    starter,
)
from gpufeed.source.files import FileSource, PathSource
from gpufeed.source.ranges import RangeSource
from gpufeed.source.zipped import ZipSource

__all__ = ["OWN", "Selection", "join", "reusing_memory", "take"]

OWN = PathSource | RangeSource | ZipSource
"""Sources that gpufeed reads from storage; each has a limit of bytes for an image."""

_REUSING = FileSource | RangeSource | ZipSource
"""Those that read files of this machine."""

Int64 = npt.NDArray[np.int64]


class Selection:
    """Images selected from one or several sources, in any order.

    Args:
        sources: at least one source.
        which: int64 (n,), index of the source that holds each key's image.
        keys: int64 (n,), the image's key in that source.
    """

    def __init__(self, sources: Sequence[Source], which: Int64, keys: Int64) -> None:
        self.sources = tuple(sources)
        self._fetchers = [fetcher(source) for source in sources]
        # None where no source wants to know: finding out what comes next is not free.
        self.fetch = self._fetch if any(self._fetchers) else None
        self.which = which
        self.keys = keys

    @property
    def start(self) -> Callable[[Int64, float | None], Future[Any]] | None:
        """A function that starts to read images: see `Source`.

        None unless there is one source, which has it: several may be of different kinds.
        """
        start = starter(self.sources[0])
        if start is None or len(self.sources) > 1:
            return None
        return lambda keys, seconds: start(self.keys[keys], seconds)

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"Selection({len(self)} images of {', '.join(map(repr, self.sources))})"

    def read(self, keys: Int64) -> list[Content | OSError]:
        """Read images: see `Source`."""
        which, inner = self.which[keys], self.keys[keys]
        if len(self.sources) == 1:
            return read_images(self.sources[0], inner)
        images: list[Content | OSError] = [b""] * len(keys)
        for index in np.unique(which):
            places = np.flatnonzero(which == index)
            read = read_images(self.sources[index], inner[places])
            for place, image in zip(places.tolist(), read, strict=True):
                images[place] = image
        return images

    def name(self, key: int) -> str:
        """Return an image's name: see `Source`."""
        source: Source = self.sources[self.which[key]]
        return source.name(int(self.keys[key]))

    def open(self, key: int) -> BinaryIO:
        """Open an image: see `Source`."""
        return open_image(self.sources[self.which[key]], int(self.keys[key]))

    def fingerprint(self) -> str | None:
        """Return a digest of the sources' own and of the selection; None if a source has none."""
        parts = [fingerprint_of(source) for source in self.sources]
        if None in parts:
            return None
        digest = hashlib.sha256(repr(parts).encode())
        digest.update(np.stack([self.which, self.keys]).tobytes())
        return digest.hexdigest()

    def _fetch(self, keys: Int64) -> None:
        which, inner = self.which[keys], self.keys[keys]
        for index in np.unique(which):
            fetch = self._fetchers[index]
            if fetch is not None:
                fetch(inner[which == index])


def join(sources: Sequence[Source], counts: Sequence[int]) -> Source:
    """Concatenate sources: the first `counts[i]` images of `sources[i]`, one after the other."""
    joined: list[Source] = []
    which, keys = [], []
    for source, count in zip(sources, counts, strict=True):
        plain = Selection([source], np.zeros(count, np.int64), np.arange(count))
        part = source if isinstance(source, Selection) else plain
        which.append(part.which[:count] + len(joined))
        keys.append(part.keys[:count])
        joined += part.sources
    return Selection(joined, np.concatenate(which), np.concatenate(keys))


def take(source: Source, keys: Int64) -> Source:
    """Return a source of the images of `keys`, in their order, repeats included."""
    if isinstance(source, OWN):
        return source.take(keys)
    if isinstance(source, Selection):
        return Selection(source.sources, source.which[keys], source.keys[keys])
    return Selection([source], np.zeros(len(keys), np.int64), keys)


def reusing_memory(source: Source, slices: Slices | None = None) -> Source:
    """Return a source of the same images; those in files are read into memory that is reused."""
    slices = slices or Slices()
    # A user's subclass may expect bytes.
    if isinstance(source, _REUSING) and type(source) in get_args(_REUSING):
        return source.reusing_memory(slices)
    if isinstance(source, Selection):
        reusing = [reusing_memory(each, slices) for each in source.sources]
        return Selection(reusing, source.which, source.keys)
    return source
