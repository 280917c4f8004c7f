"""Reads a source whose storage may hang.

Nothing can end a thread that hangs in a read. So a batch is read on a thread that can be spared,
all on one as long as images come at once, and the thread that waits looks now and then at what is
under way. A read that takes too long is given up with its thread, and another thread goes on.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from queue import SimpleQueue

import numpy as np
import numpy.typing as npt

from gpufeed.source.base import Encoded, Source, read_images
from gpufeed.source.threads import SLOW, THREADS
from gpufeed.source.wrapper import GivenUp, Wrapper

__all__ = ["Timeout"]

Work = Callable[[], None]

_TURN = 0.1
"""Seconds between two looks at what is under way, and for signals."""

_WAITING = 0.03
"""Seconds after which others are read beside an image that is waited for."""

_LATE = 1.0
"""Seconds after which a thread no longer counts among the `THREADS`, and another takes its place.

So where all reads hang, all are waited for at once, and not one eighth after the other.
"""


class Timeout(Wrapper):
    """Waits for no image longer than some seconds; one that takes longer is a `TimeoutError`.

    An image that was given up is not read again before its read has come back: until then it fails
    at once. So there are never more hanging threads than hanging images.

    Args:
        source: what is read.
        seconds: how long to wait.
    """

    def __init__(self, source: Source, seconds: float) -> None:
        super().__init__(source)
        self._seconds = seconds
        self._crew = _Crew()
        self._hanging: set[int] = set()
        self._under_way: set[_Reading] = set()
        weakref.finalize(self, self._crew.dismiss).atexit = False
        _all.add(self)

    def read(self, keys: npt.NDArray[np.int64]) -> list[Encoded | OSError]:
        """Read images: see `Source`.

        Raises:
            GivenUp: `give_up` was called meanwhile, or the interpreter ends.
        """
        reading = _Reading(self.source, keys.tolist(), self._seconds, self._crew, self._hanging)
        self._under_way.add(reading)
        try:
            if _ending.is_set():
                raise GivenUp
            return reading.wait()
        finally:
            reading.give_up()
            self._under_way.discard(reading)

    def give_up(self) -> None:
        """Have those who wait in `read` wait no longer."""
        for reading in list(self._under_way):
            reading.give_up()

    def close(self) -> None:
        """End the threads; those that read end when they have done so, and nobody waits."""
        self.give_up()
        self._crew.dismiss()


class _Reading:
    """The reading of one batch."""

    def __init__(
        self,
        source: Source,
        keys: list[int],
        timeout: float,
        crew: _Crew,
        hanging: set[int],
    ) -> None:
        self._source = source
        self._keys = keys
        self._timeout = timeout
        self._crew = crew
        self._hanging = hanging
        self._found: list[Encoded | OSError] = [b""] * len(keys)
        self._left = len(keys)
        self._next = 0
        # The places that are being read, and since when.
        self._since: dict[int, float] = {}
        self._threads = 0
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def wait(self) -> list[Encoded | OSError]:
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
        """Begin no more reads, and wait for none."""
        with self._lock:
            self._next = len(self._keys)
        self._ended.set()

    def _look(self) -> None:
        """Give up what takes too long, and read others beside what is waited for."""
        now = time.monotonic()
        with self._lock:
            for place, since in list(self._since.items()):
                if now - since > self._timeout:
                    del self._since[place]
                    self._hanging.add(self._keys[place])
                    self._threads -= 1
                    self._put(place, self._no_answer())
            waiting = any(now - since > _WAITING for since in self._since.values())
        if waiting or not self._threads:
            self._add_threads(most=THREADS)

    def _no_answer(self) -> TimeoutError:
        return TimeoutError(f"no answer within {self._timeout:g} s")

    def _put(self, place: int, found: Encoded | OSError) -> None:
        self._found[place] = found
        self._left -= 1
        if not self._left:
            self._ended.set()

    def _add_threads(self, most: int) -> None:
        now = time.monotonic()
        with self._lock:
            late = sum(now - since > _LATE for since in self._since.values())
            added = min(most + late - self._threads, len(self._keys) - self._next)
            self._threads += max(added, 0)
        for _ in range(added):
            self._crew.lend(self._work)

    def _work(self) -> None:
        """Read one image after the other, until none is left or this one took too long."""
        slow_in_a_row = 0
        try:
            while (place := self._take()) is not None:
                began = time.monotonic()
                (found,) = read_images(self._source, np.array([self._keys[place]]))
                slow = time.monotonic() - began > SLOW
                with self._lock:
                    if self._since.pop(place, None) is None:  # it was given up
                        self._hanging.discard(self._keys[place])
                        return
                    self._put(place, found)
                slow_in_a_row = slow_in_a_row + 1 if slow else 0
                if slow_in_a_row == 2:
                    self._add_threads(most=THREADS)
        except BaseException as error:  # whatever it is, the waiting thread must hear of it
            self._error = error
            self._ended.set()
        with self._lock:
            self._threads -= 1

    def _take(self) -> int | None:
        """Return the next place to read; None where there is none."""
        with self._lock:
            while self._next < len(self._keys):
                place = self._next
                self._next += 1
                if self._keys[place] not in self._hanging:
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


_all: weakref.WeakSet[Timeout] = weakref.WeakSet()
_ending = threading.Event()


def _end() -> None:
    _ending.set()
    for each in list(_all):
        each.give_up()


# Before concurrent.futures waits for its threads, of which one may wait here; `atexit` comes later.
# A Python that has it no more ends when what hangs has been given up.
with contextlib.suppress(AttributeError, RuntimeError):
    threading._register_atexit(_end)  # type: ignore[attr-defined]
