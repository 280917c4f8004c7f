"""Reads images ahead into the tiers, in the order of use, while the loader reads nothing itself."""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from time import monotonic

import numpy as np
import numpy.typing as npt

from gpufeed.source.base import Content
from gpufeed.source.wrapper import ReadCancelled
from gpufeed.tiers.order import BACK, Order

__all__ = ["Ahead", "Flight"]

Int64 = npt.NDArray[np.int64]
Flight = Future[dict[int, Content | OSError]]
"""Images that are being read ahead, by their keys."""

_FAR = 1 << 10
"""Steps that are looked at ahead, at most."""
_POLL_SECONDS = 0.1


class Ahead:
    """Reads what comes next and is in no tier, on threads of its own.

    Only while the loader reads nothing from the source: so it is delayed by one small read at most,
    and what storage can give is used while the consumer is busy.

    Args:
        order: returns what this process reads, or None where that is not known.
        absent: returns those of some records that are in no tier; None if none can be kept now.
        fetch: reads images from the source, and hands them to the tiers.
        room: bytes that may be read ahead.
        threads: number of threads.
        group: number of images that a thread reads at a time.
        seconds: after which the loader gives up a read of its own, whose thread may hang for ever;
            None if it never does.

    Attributes:
        flights: what is being read, by the image's key.
    """

    def __init__(
        self,
        order: Callable[[], Order | None],
        absent: Callable[[Int64], Int64 | None],
        fetch: Callable[[Int64], dict[int, Content | OSError]],
        *,
        room: int,
        threads: int,
        group: int,
        seconds: float | None = None,
    ) -> None:
        self.flights: dict[int, Flight] = {}
        self._order, self._absent, self._fetch = order, absent, fetch
        self._room, self._group = room, group
        self._changed = threading.Condition()
        self._begun = -1
        self._next = 0
        self._keys: deque[int] = deque()
        self._held: deque[tuple[int, int]] = deque()
        self._bytes = 0
        # Of all images that were read ahead.
        self._count = self._length = 0
        self._seconds = math.inf if seconds is None else seconds
        # When each read of the loader's counts as given up.
        self._reads: dict[object, float] = {}
        self._paused = False
        self._stopped = False
        self._threads = [
            threading.Thread(None, self._work, f"gpufeed-ahead-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        """Start the threads, if what comes is known."""
        if self._order() is not None:
            for thread in self._threads:
                thread.start()

    def begin(self, step: int) -> None:
        """Note that the loader is about to read a step."""
        with self._changed:
            order = self._order()
            if order is None:
                return
            time = order.time(step, self._begun)
            if time < self._begun - BACK:
                self._next, self._begun = 0, -1
                self._held.clear()
                self._bytes = 0
            self._begun = max(self._begun, time)
            while self._held and self._held[0][0] <= self._begun:
                self._bytes -= self._held.popleft()[1]
            if self._next <= self._begun:
                self._next = self._begun + 1
                self._keys.clear()
            self._paused = False
            self._changed.notify_all()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """While the loader looks for images and reads those that are in no tier."""
        read = self.enter()
        try:
            yield
        finally:
            self.leave(read)

    def enter(self) -> object:
        """Note that the loader starts to read from the source; return what tells this read."""
        read = object()
        with self._changed:
            self._reads[read] = monotonic() + self._seconds
        return read

    def leave(self, read: object) -> None:
        """Note that it has what it read."""
        with self._changed:
            del self._reads[read]
            self._changed.notify_all()

    def pause(self) -> None:
        """Read nothing ahead until the loader begins another step: there is no room."""
        self._paused = True

    def stop(self) -> None:
        """End the threads. Those whose read hangs end when it returns."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(1.0)

    def _work(self) -> None:
        while True:
            with self._changed:
                # A sampler of the user's own may fail: a loader then says so when it gets there.
                try:
                    taken = self._take()
                except Exception:
                    self._paused, taken = True, None
                if self._stopped:
                    return
                if taken is None:
                    self._changed.wait(_POLL_SECONDS)
                    continue
                time, keys = taken
                if not keys:  # in that step; the loader may have its turn before the next
                    continue
                flight: Flight = Future()
                self.flights.update(dict.fromkeys(keys, flight))
            try:
                found = self._fetch(np.array(keys, np.int64))
            except ReadCancelled:
                flight.cancel()
                found = {}
            except BaseException as error:
                flight.set_exception(error)
                found = {}
            else:
                flight.set_result(found)
            with self._changed:
                for key in keys:
                    del self.flights[key]
                lengths = [len(each) for each in found.values() if not isinstance(each, OSError)]
                self._count += len(lengths)
                self._length += sum(lengths)
                if self._begun < time <= self._begun + _FAR:  # the loader may have moved
                    self._held.append((time, sum(lengths)))
                    self._bytes += sum(lengths)

    def _take(self) -> tuple[int, list[int]] | None:
        """Return when images are used and which are to be read now, perhaps none of that step.

        None if there is nothing to do.
        """
        order, keys = self._order(), self._keys
        idle = not (self._paused or self._stopped) and self._begun >= 0
        if order is None or not idle or any(monotonic() < end for end in self._reads.values()):
            return None
        flying = len(set(map(id, self.flights.values()))) * self._group
        expected = (flying + self._group) * self._length // max(1, self._count)
        if self._bytes + expected > self._room:
            return None
        if not keys:
            uses = order.uses(self._next, int(self._next <= self._begun + _FAR))
            if len(uses.starts) < 2:  # far ahead, or after the end of the run
                return None
            absent = self._absent(np.unique(uses.keys))
            if absent is None:
                return None
            keys.extend(key for key in absent.tolist() if key not in self.flights)
            self._next += 1
        # The loader may have read them since.
        absent = self._absent(np.array(list(keys)[: self._group], np.int64))
        if absent is None:
            return None
        for _ in range(min(self._group, len(keys))):
            keys.popleft()
        return self._next - 1, absent.tolist()
