"""Time limits of reads that no busy machine can exceed."""

from __future__ import annotations

from collections.abc import Callable

from gpufeed.source import timeout


class HangingClock:
    """A clock for `timeout.time`, which goes on only while nothing but what hangs is being read.

    It goes on by a step each time that it is asked, however long that took.

    Args:
        hangs: whether the read of a key hangs now.
    """

    STEP = 0.05
    """Seconds; less than half of any limit, so that no read ends at the first look at it."""

    def __init__(self, hangs: Callable[[int], bool]) -> None:
        self._hangs = hangs
        self._now = 0.0

    def monotonic(self) -> float:
        batches = [batch for reader in [*timeout._instances] for batch in [*reader._in_progress]]
        keys = [batch._keys[place] for batch in batches for place in [*batch._started]]
        self._now += self.STEP * all(map(self._hangs, keys))
        return self._now
