"""Waiting until a process is idle."""

from __future__ import annotations

import threading

from gpufeed.tools.quiet import wait_until_quiet


def test_a_wait_ends_beside_work_that_does_not() -> None:
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            pass

    thread = threading.Thread(target=work)
    thread.start()
    try:
        wait_until_quiet(seconds=0)
    finally:
        over.set()
        thread.join()
