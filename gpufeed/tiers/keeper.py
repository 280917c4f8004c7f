"""Fills tiers in the background, so that reading waits for no disk."""

from __future__ import annotations

import contextlib
import queue
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpufeed.source.base import Encoded
from gpufeed.tiers.caches import Cache
from gpufeed.tiers.folder import BusyError, Folder
from gpufeed.tiers.horizon import Horizon

__all__ = ["Keeper", "Tier"]

_WAITING = 1 << 26
"""Bytes of images that may wait to be written. What comes while there are more is not kept."""
_PATIENCE = 5.0
"""Seconds to wait for a disk that may hang, before the thread that waits for it is left alone."""


@dataclass
class Tier:
    """A tier that is in use.

    Attributes:
        number: its place among all tiers.
        cache: what the user asked for.
        folder: its images.
        reads: whether they are read; not after an error.
        fills: whether images are written; not after an error.
    """

    number: int
    cache: Cache
    folder: Folder
    reads: bool = True
    fills: bool = True

    def fail(self, error: Exception, *, reading: bool) -> None:
        """Use the tier no longer, and say so once."""
        why = error if isinstance(error, OSError) else repr(error)
        if reading and self.reads:
            self.reads, told, self.fills = False, self.fills, False
            if told:
                warn(f"{self.cache} cannot be read ({why}); going on without it")
        elif self.fills:
            self.fills = False
            warn(f"{self.cache} cannot be written ({why}); no further images are kept there")


class Keeper:
    """Writes images to tiers on a thread of its own, and gives up others for them.

    What the first tier gives up, or does not take, goes to the next one.

    Args:
        tiers: the tiers, fastest first.
        horizon: knows what comes.
        refused: called if no tier took an image.

    Attributes:
        waiting: the images that wait to be written.
        followed: whether it is known what was in the tiers before.
    """

    def __init__(
        self, tiers: Sequence[Tier], horizon: Horizon, refused: Callable[[], None]
    ) -> None:
        self.waiting: dict[int, Encoded] = {}
        self.followed = False
        self._tiers = tiers
        self._horizon = horizon
        self._refused = refused
        self._bytes = 0
        self._stopped = False
        self._lock = threading.Lock()
        self._todo: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(None, self._run, "gpufeed-tiers", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the system allows no more threads
            self._fail(error)

    @property
    def fills(self) -> bool:
        """Whether any tier is still written to."""
        return any(tier.fills for tier in self._tiers)

    @property
    def busy(self) -> bool:
        """Whether so many images wait to be written that no more are taken."""
        return self._bytes >= _WAITING

    def keep(self, key: int, image: Encoded) -> None:
        """Write an image soon, unless too many wait for that."""
        with self._lock:
            if self.busy or key in self.waiting or not self.fills:
                return
            self._bytes += len(image)
            self.waiting[key] = image
        self._todo.put(lambda: self._keep(key, image))

    def begin(self, step: int) -> None:
        """Note that a step is about to be read."""
        self._ask(lambda: self._moved(self._horizon.begin(step)))

    def touch(self, keys: npt.NDArray[np.int64]) -> None:
        """Note that records were read."""
        self._ask(lambda: self._moved(self._horizon.future.touch(keys)))

    def check(self, tier: Tier, key: int) -> None:
        """Remove an image whose file is damaged."""
        self._ask(lambda: self._guard(tier, lambda: tier.folder.check(key)))

    def flush(self) -> None:
        """Wait until all that was asked for so far is done."""
        done = threading.Event()
        self._todo.put(done.set)
        while self._thread.is_alive() and not done.wait(0.1):
            pass

    def stop(self) -> bool:
        """End the thread after its current work; return whether it has ended by now."""
        self._stopped = True
        self._todo.put(None)
        # The thread may collect garbage.
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_PATIENCE)
        return not self._thread.is_alive()

    def _ask(self, do: Callable[[], None]) -> None:
        if self.fills:
            self._todo.put(do)

    def _run(self) -> None:
        for tier in self._tiers:
            self._guard(tier, tier.folder.follow)
        self.followed = True
        while (do := self._todo.get()) is not None and not self._stopped:
            try:
                do()
            except Exception as error:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        for tier in self._tiers:
            tier.fail(error, reading=False)

    def _moved(self, keys: npt.NDArray[np.int64]) -> None:
        for tier in self._tiers:
            tier.folder.kept.moved(keys)

    def _keep(self, key: int, image: Encoded) -> None:
        try:
            if not self._put(0, key, image):
                self._refused()
        finally:
            with self._lock:
                del self.waiting[key]
                self._bytes -= len(image)

    def _put(self, first: int, key: int, image: Encoded) -> bool:
        rank = self._horizon.rank(key)
        for number, tier in enumerate(self._tiers[first:], first):
            given: list[tuple[int, Encoded]] | None = None
            if tier.fills:
                last = number == len(self._tiers) - 1
                try:
                    given = tier.folder.put(key, image, rank, give=not last)
                except BusyError:
                    pass
                except Exception as error:
                    tier.fail(error, reading=False)
            if given is not None:
                for other, content in given:
                    self._put(number + 1, other, content)
                return True
        return False

    def _guard(self, tier: Tier, work: Callable[[], None]) -> None:
        if tier.fills:
            try:
                work()
            except BusyError:
                pass
            except Exception as error:
                tier.fail(error, reading=False)


def warn(text: str) -> None:
    """Warn, from any thread."""
    with contextlib.suppress(UserWarning):  # where warnings are errors, of the user's thread only
        warnings.warn(text, stacklevel=2)
