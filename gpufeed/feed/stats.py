"""The speed of a loader, and how long its consumer waited for it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from gpufeed.tiers.tiers import Counts

__all__ = ["Clock", "Stats"]


@dataclass(frozen=True)
class Stats:
    """The figures of one pass over a loader, from its first request to its last batch.

    Attributes:
        batches: batches handed out.
        images: records handed out, without padding.
        seconds: wall time.
        waited: seconds of it that the consumer spent waiting for batches; not those in which its
            own work on a GPU was waited for.
        cache_hits: images read from each tier of `cache`, prefetched batches included.
        fetched_images: images read from the source, if there are tiers, those read ahead included.
        fetched_bytes: their bytes.
    """

    batches: int
    images: int
    seconds: float
    waited: float
    cache_hits: tuple[int, ...] = ()
    fetched_images: int = 0
    fetched_bytes: int = 0

    @property
    def images_per_second(self) -> float:
        """Images divided by wall time; 0 before the first batch."""
        return self.images / self.seconds if self.seconds else 0.0

    @property
    def waiting_share(self) -> float:
        """Share of wall time that the consumer waited, 0 to 1; high if the loader is the limit."""
        return self.waited / self.seconds if self.seconds else 0.0


class Clock:
    """Measures the times of one pass.

    Attributes:
        counts: what tiers had counted when it began; None without tiers.
    """

    def __init__(self) -> None:
        self.counts: Counts | None = None
        self._first: float | None = None
        self._asked = 0.0
        self._last = 0.0
        self._waited = 0.0
        self._batches = 0
        self._images = 0

    def asked(self) -> None:
        """Record that the consumer requests a batch."""
        self._asked = time.perf_counter()
        if self._first is None:
            self._first = self._asked

    def handed_out(self, images: int) -> None:
        """Record that the consumer received a batch with this many images."""
        self._last = time.perf_counter()
        self._waited += self._last - self._asked
        self._batches += 1
        self._images += images

    def read(self, counts: Counts | None = None) -> Stats:
        """Return the figures so far, with what tiers have counted by now."""
        seconds = self._last - self._first if self._first is not None and self._batches else 0.0
        stats = Stats(self._batches, self._images, seconds, self._waited)
        if counts is None:
            return stats
        before = self.counts or Counts([0] * len(counts.hits))
        return replace(
            stats,
            cache_hits=tuple(
                now - then for now, then in zip(counts.hits, before.hits, strict=True)
            ),
            fetched_images=counts.images - before.images,
            fetched_bytes=counts.bytes - before.bytes,
        )
