"""A source made of others: some of one's images, or the images of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from gpufeed.source.base import Encoded, Source, hint, open_image, read_images
from gpufeed.source.files import FileSource

__all__ = ["Part", "join", "take"]

Int64 = npt.NDArray[np.int64]


class Part:
    """Some images of some sources, in any order.

    Args:
        sources: one or more.
        which: int64 (n,), the source that each key's image is in.
        keys: int64 (n,), its key there.
    """

    def __init__(self, sources: Sequence[Source], which: Int64, keys: Int64) -> None:
        self.sources = tuple(sources)
        self.which = which
        self.keys = keys

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"Part({len(self)} images of {', '.join(map(repr, self.sources))})"

    def read(self, keys: Int64) -> list[Encoded | OSError]:
        """Read images: see `Source`."""
        which, inner = self.which[keys], self.keys[keys]
        if len(self.sources) == 1:
            return read_images(self.sources[0], inner)
        found: list[Encoded | OSError] = [b""] * len(keys)
        for number in np.unique(which):
            places = np.flatnonzero(which == number)
            read = read_images(self.sources[number], inner[places])
            for place, each in zip(places.tolist(), read, strict=True):
                found[place] = each
        return found

    def name(self, key: int) -> str:
        """Return an image's name: see `Source`."""
        source: Source = self.sources[self.which[key]]
        return source.name(int(self.keys[key]))

    def open(self, key: int) -> BinaryIO:
        """Open an image: see `Source`."""
        return open_image(self.sources[self.which[key]], int(self.keys[key]))

    def fetch(self, keys: Int64) -> None:
        """Pass the hint on: see `Source`."""
        which, inner = self.which[keys], self.keys[keys]
        for number in np.unique(which):
            hint(self.sources[number], inner[which == number])


def join(sources: Sequence[Source], counts: Sequence[int]) -> Source:
    """Return the images of several sources, one after the other, so many of each."""
    which = np.repeat(np.arange(len(sources)), counts)
    return Part(sources, which, np.concatenate([np.arange(count) for count in counts]))


def take(source: Source, keys: Int64) -> Source:
    """Return a source of some images of another, in the order of `keys`, repeats included."""
    if isinstance(source, FileSource):
        return source.take(keys)
    if isinstance(source, Part):
        return Part(source.sources, source.which[keys], source.keys[keys])
    return Part([source], np.zeros(len(keys), np.int64), keys)
