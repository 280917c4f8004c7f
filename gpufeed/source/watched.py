"""Reading files of a storage that may hang.

A thread that hangs in a read can not be ended. So a batch's files are read on a thread that can be
spared, all on one as long as they come at once, and who waits for them looks now and then at what
is under way. What has been so for too long is given up, with its thread, and another goes on.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from gpufeed.source.readers import SLOW, THREADS, GivenUp, Readers

__all__ = ["WatchedReaders"]

T = TypeVar("T")
R = TypeVar("R")
Work = Callable[[], None]

_TURN = 0.1
"""Seconds after which who waits looks at what is under way, and for signals."""

_WAITING = 0.03
"""Seconds after which a file is one that is waited for, so that others are read beside it."""

_LATE = 1.0
"""Seconds after which a thread is none of the `THREADS` any more, and another comes in its place.

So where all files hang, all are waited for at once, and not one eighth after the other.
"""


class WatchedReaders(Readers):
    """Reads on threads that can be spared, and waits for no file longer than `timeout`.

    A file that was given up is not asked for again before its read has come back: until then it
    fails at once. So there are never more threads that hang than files that do.

    Args:
        timeout: seconds.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._crew = _Crew()
        self._hanging: set[Hashable] = set()
        self._under_way: set[_Reading[Any, Any]] = set()
        weakref.finalize(self, self._crew.dismiss).atexit = False
        _all.add(self)

    def read(self, items: Sequence[T], attempt: Callable[[T], R]) -> list[R | TimeoutError]:
        """Read: see `Readers`."""
        reading = _Reading(items, attempt, self._timeout, self._crew, self._hanging)
        self._under_way.add(reading)
        try:
            if _ending.is_set():
                raise GivenUp
            return reading.wait()
        finally:
            reading.give_up()
            self._under_way.discard(reading)

    def give_up(self) -> None:
        """Have those who wait for files wait no longer."""
        for reading in list(self._under_way):
            reading.give_up()

    def close(self) -> None:
        """End the threads; those that read, when they have done so, and nobody waits for them."""
        self.give_up()
        self._crew.dismiss()


class _Reading(Generic[T, R]):
    """The reading of one batch's files."""

    def __init__(
        self,
        items: Sequence[T],
        attempt: Callable[[T], R],
        timeout: float,
        crew: _Crew,
        hanging: set[Hashable],
    ) -> None:
        self._items = items
        self._attempt = attempt
        self._timeout = timeout
        self._crew = crew
        self._hanging = hanging
        self._found: list[Any] = [None] * len(items)
        self._left = len(items)
        self._next = 0
        # The places that are being read, and since when.
        self._since: dict[int, float] = {}
        self._threads = 0
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def wait(self) -> list[R | TimeoutError]:
        """Begin, and wait for the end."""
        self._add_threads(most=1)
        while self._left and not self._ended.wait(min(_TURN, self._timeout / 4)):
            self._look()
        if self._error is not None:
            raise self._error
        if self._left:
            raise GivenUp
        return self._found

    def give_up(self) -> None:
        """Begin with no more files, and wait for none."""
        with self._lock:
            self._next = len(self._items)
        self._ended.set()

    def _look(self) -> None:
        """Give up what takes too long, and read others beside what is waited for."""
        now = time.monotonic()
        with self._lock:
            for place, since in list(self._since.items()):
                if now - since > self._timeout:
                    del self._since[place]
                    self._hanging.add(self._items[place])
                    self._threads -= 1
                    self._put(place, self._no_answer())
            waiting = any(now - since > _WAITING for since in self._since.values())
        if waiting or not self._threads:
            self._add_threads(most=THREADS)

    def _no_answer(self) -> TimeoutError:
        return TimeoutError(f"no answer within {self._timeout:g} s")

    def _put(self, place: int, found: R | TimeoutError) -> None:
        self._found[place] = found
        self._left -= 1
        if not self._left:
            self._ended.set()

    def _add_threads(self, most: int) -> None:
        now = time.monotonic()
        with self._lock:
            late = sum(now - since > _LATE for since in self._since.values())
            added = min(most + late - self._threads, len(self._items) - self._next)
            self._threads += max(added, 0)
        for _ in range(added):
            self._crew.lend(self._work)

    def _work(self) -> None:
        """Read one file after the other, until none is left or this one took too long."""
        slow_in_a_row = 0
        try:
            while (place := self._take()) is not None:
                began = time.monotonic()
                found = self._attempt(self._items[place])
                slow = time.monotonic() - began > SLOW
                with self._lock:
                    if self._since.pop(place, None) is None:  # it was given up
                        self._hanging.discard(self._items[place])
                        return
                    self._put(place, found)
                slow_in_a_row = slow_in_a_row + 1 if slow else 0
                if slow_in_a_row == 2:
                    self._add_threads(most=THREADS)
        except BaseException as error:  # whatever it is, who waits must hear of it
            self._error = error
            self._ended.set()
        with self._lock:
            self._threads -= 1

    def _take(self) -> int | None:
        """Return the next place to read; None where there is none."""
        with self._lock:
            while self._next < len(self._items):
                place = self._next
                self._next += 1
                if self._items[place] not in self._hanging:
                    self._since[place] = time.monotonic()
                    return place
                self._put(place, self._no_answer())
        return None


class _Crew:
    """Threads that can be spared: the end of the interpreter does not wait for them."""

    def __init__(self) -> None:
        self._idle: list[_Tasks] = []
        self._dismissed = False

    def lend(self, work: Work) -> None:
        """Have an idle thread do it, or a new one."""
        try:
            tasks = self._idle.pop()
        except IndexError:
            tasks = SimpleQueue()
            arguments = (tasks,)
            threading.Thread(None, self._serve, "gpufeed-read", arguments, daemon=True).start()
        tasks.put(work)

    def dismiss(self) -> None:
        """End those that are idle, and the others as soon as they are."""
        self._dismissed = True
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().put(None)

    def _serve(self, tasks: _Tasks) -> None:
        while (work := tasks.get()) is not None:
            work()
            del work  # with what it refers to
            self._idle.append(tasks)
            if self._dismissed:  # perhaps before it could be seen in the list
                self.dismiss()


_Tasks = SimpleQueue[Work | None]


_all: weakref.WeakSet[WatchedReaders] = weakref.WeakSet()
_ending = threading.Event()


def _end() -> None:
    _ending.set()
    for readers in list(_all):
        readers.give_up()


# Before concurrent.futures waits for its threads, of which one may wait here; `atexit` comes later.
# A Python that has it no more ends when what hangs has been given up.
with contextlib.suppress(AttributeError, RuntimeError):
    threading._register_atexit(_end)  # type: ignore[attr-defined]
