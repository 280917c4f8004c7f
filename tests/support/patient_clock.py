"""A clock for `read_timeout`, by which no read is late that only a busy machine holds up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from types import SimpleNamespace

from gpufeed.source import timeout


def patient(hung: Callable[[], Collection[int]]) -> SimpleNamespace:
    """Return what stands for the module `time` in `gpufeed.source.timeout`.

    Its time passes only while all reads in progress are of keys that hang, a little whenever the
    waiting thread looks.
    """
    now = 0.0
    lock = threading.Lock()

    def monotonic() -> float:
        nonlocal now
        with lock:
            if threading.current_thread().name != "gpufeed-read":
                batches = [each for reader in timeout._instances for each in reader._in_progress]
                keys = {batch._keys[place] for batch in batches for place in [*batch._started]}
                if keys and keys <= {*hung()}:
                    now += 0.04
            return now

    return SimpleNamespace(monotonic=monotonic)
