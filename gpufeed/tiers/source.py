"""A source whose images are kept in tiers, in front of a slower one."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gpufeed._util.exits import before_threads_end
from gpufeed.errors import ConfigError
from gpufeed.source.base import (
    Content,
    Source,
    fetcher,
    fingerprint_of,
    open_image,
    read_images,
    starter,
)
from gpufeed.source.remote.loop import result
from gpufeed.tiers.caches import Cache
from gpufeed.tiers.folder import PREFIX
from gpufeed.tiers.tiers import Counts, Run, Tiers

__all__ = ["TieredSource", "folder_name"]

Int64 = npt.NDArray[np.int64]
Images = list[Content | OSError]

_FORMAT = 1
"""Changes when what is written changes."""


def folder_name(source: Source, count: int) -> str:
    """Return the name of the folder of a source's images, which says which they are.

    Raises:
        ConfigError: the source has no fingerprint.
    """
    images = fingerprint_of(source)
    if images is None:
        raise ConfigError(
            f"{type(source).__name__} has no fingerprint, which tells its images from those of "
            "other data in a MemoryCache or DiskCache; give the source a method fingerprint() (see "
            "gpufeed.Source), or use no such cache"
        )
    return f"{PREFIX}{hashlib.sha256(f'{_FORMAT} {count} {images}'.encode()).hexdigest()[:32]}"


class TieredSource:
    """Reads images from tiers, and from a source what they do not have; fills the tiers.

    Args:
        source: the source; it has a `fingerprint`.
        caches: the tiers, fastest first.
        run: what is read.

    Raises:
        ConfigError: the source has no fingerprint, or a tier cannot be used here.

    Attributes:
        caches: the tiers.
        counts: what was read from where.
    """

    def __init__(self, source: Source, caches: Sequence[Cache], run: Run) -> None:
        self._name = folder_name(source, run.count)
        for cache in caches:
            cache.check(self._name)
        self.source = source
        self.fetch = fetcher(source)
        self.counts = Counts([0] * len(caches))
        self.caches = tuple(caches)
        self._of = run
        self._start = starter(source)
        self._lock = threading.Lock()
        self._tiers: Tiers | None = None
        self._stop: Callable[[], object] = _nothing

    def __len__(self) -> int:
        return self._of.count

    def __repr__(self) -> str:
        return f"TieredSource({self.source!r}, {list(self.caches)})"

    def name(self, key: int) -> str:
        """Return an image's name: see `Source`."""
        return self.source.name(key)

    def open(self, key: int) -> BinaryIO:
        """Open an image: see `Source`."""
        return open_image(self.source, key)

    def begin(self, step: int) -> None:
        """Note that the loader is about to read a step."""
        self._run().begin(step)

    def read(self, keys: Int64) -> Images:
        """Read images: see `Source`."""
        tiers = self._run()
        with tiers.ahead.reading():
            images, missing, flights = tiers.look(keys)
            if missing:
                found = read_images(self.source, keys[missing])
                tiers.keep(keys[missing], found)
                _place(images, missing, found)
        for flight, places in flights.items():
            landed = result(flight)
            _place(images, places, [landed[key] for key in keys[places].tolist()])
        return images

    @property
    def start(self) -> Callable[[Int64, float | None], Future[Images]] | None:
        """A function that starts to read images: see `Source`; None if the source has none."""
        return None if self._start is None else self._begin_read

    def _begin_read(self, keys: Int64, seconds: float | None) -> Future[Images]:
        tiers = self._run()
        inner: Future[Any] | None = None
        request: object = None
        with tiers.ahead.reading():
            images, missing, flights = tiers.look(keys)
            if missing and self._start is not None:
                inner = self._start(keys[missing], seconds)
                request = tiers.ahead.enter()
        whole: Future[Images] = Future()
        waits: list[Future[Any]] = list(flights)

        def keep(done: Future[Any]) -> None:
            with contextlib.suppress(Exception):  # which `finish` hands on
                tiers.keep(keys[missing], done.result())
            tiers.ahead.leave(request)

        if inner is not None:
            inner.add_done_callback(keep)
            waits.append(inner)

        def finish() -> None:
            try:
                for flight, places in flights.items():
                    landed = flight.result()
                    _place(images, places, [landed[key] for key in keys[places].tolist()])
                if inner is not None:
                    _place(images, missing, inner.result())
                with contextlib.suppress(InvalidStateError):  # it was cancelled
                    whole.set_result(images)
            except (CancelledError, asyncio.CancelledError):
                whole.cancel()
            except BaseException as error:
                with contextlib.suppress(InvalidStateError):
                    whole.set_exception(error)

        def cancel(_: object) -> None:
            if inner is not None and whole.cancelled():
                inner.cancel()

        arrived = itertools.count(1)
        whole.add_done_callback(cancel)
        for each in waits:
            each.add_done_callback(lambda _: finish() if next(arrived) == len(waits) else None)
        if not waits:
            finish()
        return whole

    def close(self) -> None:
        """End the threads, and leave the tiers; reading again begins anew."""
        with self._lock:
            stop, self._tiers, self._stop = self._stop, None, _nothing
        stop()
        if self._start is not None and callable(close := getattr(self.source, "close", None)):
            close()

    def _run(self) -> Tiers:
        tiers = self._tiers
        if tiers is None:
            with self._lock:
                tiers = self._tiers
                if tiers is None:
                    tiers = Tiers(self.source, self.caches, self._name, self._of, self.counts)
                    # Also when the process ends, so that memory is freed.
                    self._stop = weakref.finalize(self, tiers.stop)
                    self._tiers = tiers
                    _in_use.add(self)
        return tiers


def _place(images: Images, places: Sequence[int], found: Sequence[Content | OSError]) -> None:
    for place, image in zip(places, found, strict=True):
        images[place] = image


def _nothing() -> None:
    """Do nothing."""


_in_use: weakref.WeakSet[TieredSource] = weakref.WeakSet()


def _stop_all() -> None:
    for source in list(_in_use):
        source._stop()


# Before the event loop of requests ends, which reading ahead would begin anew.
before_threads_end(_stop_all)
