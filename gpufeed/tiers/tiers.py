"""Tiers at work: looks for images in them, fills them, and reads ahead."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.memory import Slices
from gpufeed.order.sampler import Sampler
from gpufeed.order.schedule import Schedule
from gpufeed.source.base import Content, Encoded, Source, read_images, starter
from gpufeed.source.remote.loop import result
from gpufeed.source.timeout import Timeout
from gpufeed.tiers.ahead import Ahead, Flight
from gpufeed.tiers.caches import Cache, bytes_of
from gpufeed.tiers.folder import DamagedFileError
from gpufeed.tiers.future import Future as Ranks
from gpufeed.tiers.horizon import Horizon
from gpufeed.tiers.keeper import Keeper, Tier, warn

__all__ = ["Counts", "Run", "Tiers"]

Int64 = npt.NDArray[np.int64]
Images = list[Content | OSError]

_AHEAD = 16
"""The share of a tier, as its inverse, that may be filled with what is read ahead."""
_THREADS = 4
"""Threads that read ahead from a source that makes no requests of its own."""


@dataclass
class Counts:
    """What was read from where.

    Attributes:
        hits: images read from each tier; those that wait to be written count for the first.
        images: images read from the source, those read ahead included.
        bytes: their bytes.
    """

    hits: list[int]
    images: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Run:
    """What is read.

    Attributes:
        count: number of images.
        sampler: the order in which they are read.
        schedule: divides it; its shard may change.
        repeats: whether each pass is the same, as in a loader with `restart`.
        seconds: how long reading an image may take; None for ever.
    """

    count: int
    sampler: Sampler
    schedule: Schedule
    repeats: bool
    seconds: float | None = None


class Tiers:
    """Folders of images in use, and the threads that fill them, until `stop`.

    Args:
        source: the source of the images.
        caches: the tiers, fastest first.
        name: says which images these are.
        run: what is read.
        counts: what is counted.

    Attributes:
        ahead: reads ahead.
    """

    def __init__(
        self, source: Source, caches: Sequence[Cache], name: str, run: Run, counts: Counts
    ) -> None:
        self._source, self._start = source, starter(source)
        self._counts = counts
        self._seconds = run.seconds
        # So that an image that hangs keeps no thread from reading others ahead.
        self._limited: Timeout | None = None
        if self._start is None and run.seconds is not None:
            self._limited = Timeout(source, run.seconds)
        self._lock = threading.Lock()
        self._slices = Slices()
        self._pending: set[Future[Any]] = set()
        self._process = os.getpid()
        ranks = Ranks(run.count)
        # A source that makes requests of its own is asked for four batches at a time. Of others
        # each image is read alone, so that one that hangs keeps no other from the loader.
        delay, threads, group = (1, _THREADS, 1) if self._start is None else (4, 1, 32)
        self._horizon = Horizon(run.sampler, run.schedule, ranks, repeats=run.repeats, delay=delay)
        self._tiers: list[Tier] = []
        room = 0
        for number, cache in enumerate(caches):
            try:
                self._tiers.append(Tier(number, cache, cache.open(name, ranks)))
                room += bytes_of(cache.size) // _AHEAD
            except OSError as error:
                warn(f"{cache} cannot be used ({error}); going on without it")
        self.ahead = Ahead(
            self._horizon.order,
            self._absent,
            self._read_ahead,
            room=room,
            threads=threads,
            group=group,
            seconds=run.seconds,
        )
        self.keeper = Keeper(self._tiers, self._horizon, self.ahead.pause)
        try:
            self.ahead.start()
        except RuntimeError as error:  # the system allows no more threads
            warn(f"images are read ahead on fewer threads, or not at all ({error})")

    def begin(self, step: int) -> None:
        """Note that the loader is about to read a step."""
        self.keeper.begin(step)
        self.ahead.begin(step)

    def look(self, keys: Int64) -> tuple[Images, list[int], dict[Flight, list[int]]]:
        """Look for images.

        Returns:
            The images; the places of those to read from the source; and the places of those that
            are being read ahead.
        """
        if self._horizon.future.block is None:
            self.keeper.touch(keys)
        images: Images = []
        missing: list[int] = []
        flights: dict[Flight, list[int]] = {}
        hits = [0] * len(self._counts.hits)
        for place, key in enumerate(keys.tolist()):
            # An image being read goes to the keeper, and from there to a tier: in this order.
            flight = self.ahead.flights.get(key)
            if flight is not None:
                flights.setdefault(flight, []).append(place)
                images.append(b"")
                continue
            waiting = self.keeper.waiting.get(key)
            if waiting is not None:
                hits[0] += 1
                images.append(waiting)
                continue
            for tier in self._tiers:
                found = self._read_tier(tier, key)
                if found is not None:
                    hits[tier.number] += 1
                    images.append(found)
                    break
            else:
                missing.append(place)
                images.append(b"")
        with self._lock:
            self._counts.hits = [a + b for a, b in zip(self._counts.hits, hits, strict=True)]
        return images, missing, flights

    def keep(self, keys: Int64, images: Sequence[Content | OSError]) -> None:
        """Hand images from the source to the tiers; pixels and errors are not kept."""
        encoded = [
            (key, image)
            for key, image in zip(keys.tolist(), images, strict=True)
            if isinstance(image, bytes | bytearray | memoryview)
        ]
        with self._lock:
            self._counts.images += len(images)
            self._counts.bytes += sum(len(image) for _, image in encoded)
        for key, image in encoded:
            self.keeper.keep(key, image)

    def stop(self) -> None:
        """End the threads, and leave the folders."""
        if self._process != os.getpid():  # threads do not survive a fork
            return
        self._horizon.stop()
        for future in list(self._pending):
            future.cancel()
        if self._limited is not None:
            self._limited.close()
        self.ahead.stop()
        if self.keeper.stop():
            for tier in self._tiers:
                tier.folder.close()

    def _read_tier(self, tier: Tier, key: int) -> Encoded | None:
        if not tier.reads:
            return None
        try:
            return tier.folder.read(key, self._slices)
        except DamagedFileError:
            self.keeper.check(tier, key)
        except OSError as error:
            tier.fail(error, reading=True)
        return None

    def _absent(self, keys: Int64) -> Int64 | None:
        if self.keeper.busy or not self.keeper.fills or not self.keeper.followed:
            return None
        kept = np.isin(keys, list(self.keeper.waiting))
        for tier in self._tiers:
            kept |= tier.folder.kept.sizes[keys] > 0
        return keys[~kept]

    def _read_ahead(self, keys: Int64) -> dict[int, Content | OSError]:
        if self._start is None:
            found: Sequence[Content | OSError] = (
                read_images(self._source, keys)
                if self._limited is None
                else self._limited.read(keys)
            )
        else:
            future = self._start(keys, self._seconds)
            self._pending.add(future)
            try:
                found = result(future)
            finally:
                self._pending.discard(future)
        self.keep(keys, found)
        return dict(zip(keys.tolist(), found, strict=True))
