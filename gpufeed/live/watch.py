"""Watching a loader: a thread that writes its snapshot once a second."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpufeed._util.exits import before_threads_end
from gpufeed._util.limits import local_rank
from gpufeed._util.spans import at_work
from gpufeed.live.snapshots import Snapshot, path_of, read_snapshots, remove, write
from gpufeed.live.status_line import StatusLine

__all__ = ["Watch", "watch"]

SECONDS = 1.0
"""Seconds between two snapshots."""
_WINDOW = 5
"""Snapshots back to the one that recent figures begin with."""

_PATIENCE = 5
"""Seconds that the end of a watch waits for its thread."""

_numbers = itertools.count()
_line = StatusLine()


def watch(describe: Callable[[], Snapshot]) -> Watch | None:
    """Watch a loader; return None if there is nowhere to write, or GPUFEED_LIVE is 0.

    Args:
        describe: a method, held weakly, that returns the loader's figures; called by a thread.
    """
    asked = os.environ.get("GPUFEED_LIVE")
    if asked == "0":
        return None
    line = _line if asked == "1" and local_rank() == 0 and os.isatty(2) else None
    try:
        return Watch(describe, line)
    except (OSError, RuntimeError):  # no folder for it, or no further thread
        return None


class Watch:
    """Writes a loader's snapshot once a second, until the loader is closed or gone.

    A snapshot is what `describe` returns, with `pid`, `parent`, `number` (of the loader in its
    process), `time` (of the monotonic clock) and `recent`: the figures of the last five seconds.

    Raises:
        OSError: there is nowhere to write.
        RuntimeError: there cannot be another thread.
    """

    def __init__(self, describe: Callable[[], Snapshot], line: StatusLine | None) -> None:
        number = next(_numbers)
        own = {"pid": os.getpid(), "parent": os.getppid(), "number": number}
        self._process = os.getpid()
        self._stop = threading.Event()
        read_snapshots()  # removes those of killed processes
        self._thread = threading.Thread(
            target=_run,
            args=(weakref.WeakMethod(describe), own, path_of(number), line, self._stop),
            name="gpufeed-live",
            daemon=True,
        )
        self._thread.start()
        _all.add(self)

    def end(self) -> None:
        """Remove the snapshot. A forked process leaves that of its parent."""
        if os.getpid() == self._process:
            self._stop.set()
            if self._thread is not threading.current_thread():  # which may free the loader
                self._thread.join(_PATIENCE)  # a terminal may hold up what is written to it


def _run(
    method: weakref.WeakMethod[Callable[[], Snapshot]],
    own: Snapshot,
    path: Path,
    line: StatusLine | None,
    stop: threading.Event,
) -> None:
    before: deque[Snapshot] = deque(maxlen=_WINDOW)
    try:
        while not stop.wait(SECONDS):
            describe = method()
            if describe is None:
                return
            now = {**own, "time": time.monotonic(), **describe()}
            del describe  # so that the loader can go while this thread sleeps
            if before and now["passes"] != before[-1]["passes"]:
                before.clear()
            snapshot = {**now, "recent": _recent(before[0] if before else None, now)}
            before.append(now)
            # Perhaps a second later: there is no room, or the folder went as its user logged out.
            with contextlib.suppress(OSError):
                write(path_of(own["number"]), snapshot)
            if line is not None:
                line.show(snapshot)
    finally:
        remove(path)
        if line is not None:
            line.end()


def _recent(then: Snapshot | None, now: Snapshot) -> dict[str, Any]:
    """Return the figures between two snapshots of a pass; without a first one, of all the pass.

    Of each stage, they have the seconds in which it was at work.
    """
    new = now["stats"]
    old: Snapshot = then["stats"] if then else {**dict.fromkeys(new, 0), "stages": {}}
    elapsed = now["time"] - then["time"] if then else new["seconds"]
    between = new["seconds"] - old["seconds"]
    waited = new["waited"] - old["waited"]
    return {
        "images_per_second": (new["images"] - old["images"]) / elapsed if elapsed else 0.0,
        # Known when a batch comes; if none did, the consumer has waited all the time or not at all.
        "waiting_share": waited / between if between else float(now["waits"]),
        "stages": at_work(
            {stage: each - old["stages"].get(stage, 0.0) for stage, each in new["stages"].items()},
            now["readers"],
        ),
    }


_all: weakref.WeakSet[Watch] = weakref.WeakSet()


def _end_all() -> None:
    for each in list(_all):
        each.end()


before_threads_end(_end_all)
