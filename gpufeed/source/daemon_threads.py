"""Threads for calls that may hang: the interpreter does not wait for them when it exits."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["DaemonThreads"]

Work = Callable[[], None]
_Tasks = SimpleQueue[Work | None]


class DaemonThreads:
    """Daemon threads that are reused; there are as many as there are calls at a time.

    Args:
        name: of the threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: list[_Tasks] = []
        self._stopped = False

    def run(self, work: Work) -> None:
        """Run `work` on an idle thread, or on a new one."""
        try:
            tasks = self._idle.pop()
        except IndexError:
            tasks = SimpleQueue()
            tasks.put(work)  # before the thread starts, lest it waits for ever after an interrupt
            threading.Thread(None, self._serve, self._name, (tasks,), daemon=True).start()
        else:
            tasks.put(work)

    def stop(self) -> None:
        """Stop the idle threads now, and the others when they become idle."""
        self._stopped = True
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().put(None)

    def _serve(self, tasks: _Tasks) -> None:
        while (work := tasks.get()) is not None:
            work()
            del work  # and with it what it holds
            self._idle.append(tasks)
            if self._stopped:  # `stop` may not have seen this thread in the list
                self.stop()
