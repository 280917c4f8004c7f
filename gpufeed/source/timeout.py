"""Reads a source whose storage may hang.

A thread that hangs in a read cannot be interrupted. So images are read on daemon threads, and the
caller polls their progress: on one thread while images arrive quickly, otherwise on several. A read
that takes too long is abandoned together with its thread, and another thread continues.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import Self

import numpy as np
import numpy.typing as npt

from gpufeed._util.exits import before_threads_end
from gpufeed.source.base import Content, Source, read_images
from gpufeed.source.daemon_threads import DaemonThreads
from gpufeed.source.threads import SLOW, THREADS
from gpufeed.source.wrapper import ReadCancelled, Wrapper

__all__ = ["Timeout"]

_POLL = 0.1
"""Seconds between two checks of the reads in progress, and for signals."""

_PARALLEL_AFTER = 0.03
"""Seconds that one read may take before other images are read in parallel."""

_STALLED_AFTER = 1.0
"""Seconds after which a reading thread no longer counts towards `THREADS`, so another may start.

If all reads hang, they therefore time out together, and not `THREADS` at a time.
"""


class Timeout(Wrapper):
    """Limits how long to wait for an image; one that takes longer is a `TimeoutError`.

    After a timeout, further reads of the image fail at once until its first read returns. So there
    are never more hanging threads than hanging images.

    Args:
        source: the source to read.
        seconds: how long to wait for an image.
    """

    def __init__(self, source: Source, seconds: float) -> None:
        super().__init__(source)
        self._seconds = seconds
        self._threads = DaemonThreads("gpufeed-read")
        self._hanging: set[int] = set()
        self._in_progress: set[_BatchRead] = set()
        weakref.finalize(self, self._threads.stop).atexit = False
        _instances.add(self)

    def read(self, keys: npt.NDArray[np.int64]) -> list[Content | OSError]:
        """Read images: see `Source`.

        Raises:
            ReadCancelled: `cancel` was called during the read, or the interpreter is exiting.
        """
        batch = _BatchRead(self.source, keys.tolist(), self._seconds, self._threads, self._hanging)
        self._in_progress.add(batch)
        try:
            if _exiting.is_set():
                raise ReadCancelled
            return batch.wait()
        finally:
            batch.cancel()
            self._in_progress.discard(batch)

    def cancel(self) -> None:
        """Make pending calls of `read` return at once."""
        for batch in list(self._in_progress):
            batch.cancel()

    def close(self) -> None:
        """Stop the threads without waiting for them; those that are reading stop afterwards."""
        self.cancel()
        if self._owns_threads:
            self._threads.stop()

    def share(self) -> Self:
        """Return a reader with the same threads, whose reads are cancelled apart: see `Wrapper`."""
        shared = super().share()
        shared._in_progress = set()
        _instances.add(shared)
        return shared


class _BatchRead:
    """The read of one batch."""

    def __init__(
        self,
        source: Source,
        keys: list[int],
        timeout: float,
        threads: DaemonThreads,
        hanging: set[int],
    ) -> None:
        self._source = source
        self._keys = keys
        self._timeout = timeout
        self._threads = threads
        self._hanging = hanging
        self._images: list[Content | OSError] = [b""] * len(keys)
        self._remaining = len(keys)
        self._next = 0
        # Start time of each read in progress, by its place in the batch.
        self._started: dict[int, float] = {}
        self._active = 0
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._done = threading.Event()

    def wait(self) -> list[Content | OSError]:
        """Start reading, and wait until all images are read or have timed out."""
        self._start_threads(limit=1)
        while self._remaining and not self._done.wait(min(_POLL, self._timeout / 4)):
            self._poll()
        if self._error is not None:
            raise self._error
        if self._remaining:
            raise ReadCancelled
        return self._images

    def cancel(self) -> None:
        """Start no more reads, and stop waiting for those in progress."""
        with self._lock:
            self._next = len(self._keys)
        self._done.set()

    def _poll(self) -> None:
        """Abandon reads that take too long, and start more threads while one is waited for."""
        now = time.monotonic()
        with self._lock:
            for place, start in list(self._started.items()):
                if now - start > self._timeout:
                    del self._started[place]
                    self._hanging.add(self._keys[place])
                    self._active -= 1
                    self._store(place, self._timeout_error())
            waiting = any(now - start > _PARALLEL_AFTER for start in self._started.values())
        if waiting or not self._active:
            self._start_threads(limit=THREADS)

    def _timeout_error(self) -> TimeoutError:
        return TimeoutError(f"no answer within {self._timeout:g} s")

    def _store(self, place: int, image: Content | OSError) -> None:
        self._images[place] = image
        self._remaining -= 1
        if not self._remaining:
            self._done.set()

    def _start_threads(self, limit: int) -> None:
        now = time.monotonic()
        with self._lock:
            stalled = sum(now - start > _STALLED_AFTER for start in self._started.values())
            added = min(limit + stalled - self._active, len(self._keys) - self._next)
            self._active += max(added, 0)
        for _ in range(added):
            self._threads.run(self._work)

    def _work(self) -> None:
        """Read one image after the other, until none is left or a read was abandoned."""
        slow_in_a_row, place = 0, None
        try:
            while (place := self._take()) is not None:
                start = time.monotonic()
                (image,) = read_images(self._source, np.array([self._keys[place]]))
                slow = time.monotonic() - start > SLOW
                with self._lock:
                    if self._started.pop(place, None) is None:  # the read was abandoned
                        self._hanging.discard(self._keys[place])
                        return
                    self._store(place, image)
                slow_in_a_row = slow_in_a_row + 1 if slow else 0
                if slow_in_a_row == 2:
                    self._start_threads(limit=THREADS)
        except BaseException as error:  # raised again in the waiting thread
            with self._lock:
                if place is not None and self._started.pop(place, None) is None:
                    self._hanging.discard(self._keys[place])  # the read was abandoned
                    return
            self._error = error
            self._done.set()
        with self._lock:
            self._active -= 1

    def _take(self) -> int | None:
        """Return the next place to read, or None if none is left."""
        with self._lock:
            while self._next < len(self._keys):
                place = self._next
                self._next += 1
                if self._keys[place] not in self._hanging:
                    self._started[place] = time.monotonic()
                    return place
                self._store(place, self._timeout_error())
        return None


_instances: weakref.WeakSet[Timeout] = weakref.WeakSet()
_exiting = threading.Event()


def _cancel_all() -> None:
    _exiting.set()
    for instance in list(_instances):
        instance.cancel()


before_threads_end(_cancel_all)
