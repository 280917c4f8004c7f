"""Which decoder takes a record: a function of its path and its size, never of its batch."""

from __future__ import annotations

import bisect
import hashlib
import itertools
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpufeed.open.kinds import THREADS, Kind, Shares

if TYPE_CHECKING:
    from gpufeed.records import Manifest

__all__ = ["LARGE", "Choice"]

Int64 = npt.NDArray[np.int64]

LARGE = 1 << 24
"""Pixels above which threads take an image, since they alone bound the memory of a batch."""


class Choice:
    """Chooses the decoder of each image of a manifest.

    An image's path is hashed, so that it keeps its decoder in a subset. Images above 2^24 pixels go
    to threads, unless the opener is "graph" alone: decoded in the graph, a batch of them would take
    gigabytes.

    Args:
        shares: the share of each kind.
        manifest: the images.

    Attributes:
        kinds: the kinds that images of this manifest may have.
        largest: the most pixels of an image that is not large, at least 1.
        num_images: the number of images.
    """

    def __init__(self, shares: Shares, manifest: Manifest) -> None:
        self._shares = tuple(shares)
        self._ends = [*itertools.accumulate(shares.values())][:-1]
        self._paths = manifest.frame["path"]
        self.num_images = len(manifest)
        self.largest = most = manifest.most_pixels()
        if most > LARGE:
            self.largest = max(manifest.most_pixels(LARGE), 1)
        self._has_large = self._shares != ("graph",) and most > LARGE
        self.kinds: tuple[Kind, ...] = tuple(
            dict.fromkeys((*[THREADS] * self._has_large, *self._shares))
        )

    def of(self, keys: Int64, sizes: Int64) -> list[Kind]:
        """Return the kind of decoder for each of some images.

        Args:
            keys: int64 (n,), the images.
            sizes: int64 (n, 2), height and width of those that are decoded for them.
        """
        if len(self._shares) == 1:
            kinds = [self._shares[0]] * len(keys)
        else:
            paths = self._paths.gather(keys).to_list()
            kinds = [self._shares[bisect.bisect(self._ends, _fraction(path))] for path in paths]
        if self._has_large:
            for place in np.flatnonzero(sizes.prod(axis=1) > LARGE).tolist():
                kinds[place] = THREADS
        return kinds


def _fraction(path: str) -> float:
    """Return a number from 0 to 1, uniform over paths, the same on every machine."""
    digest = hashlib.blake2b(path.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
