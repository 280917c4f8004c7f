"""The figures of loaders in the last line of their own terminal."""

from __future__ import annotations

import contextlib
import os
import threading

from gpufeed.live.snapshots import Snapshot
from gpufeed.live.words import limit, time_left

__all__ = ["StatusLine"]

_STDERR = 2


class StatusLine:
    """Keeps the last line of the terminal for itself; everything else scrolls above it.

    So prints and progress bars of any library stay whole. It writes to standard error, which must
    be a terminal. The threads that watch loaders share it.
    """

    def __init__(self) -> None:
        self._height = 0
        self._users: set[int] = set()

    def show(self, snapshot: Snapshot) -> None:
        """Show a loader that fed images in the last seconds, or is waited for."""
        self._users.add(threading.get_ident())
        stats, recent = snapshot["stats"], snapshot["recent"]
        if not recent["images_per_second"] and not snapshot["waits"]:
            return  # perhaps another loader feeds
        steps = max(1, stats["steps_in_epoch"])
        parts = (
            f"epoch {stats['epoch']}: {stats['step_in_epoch'] / steps:.0%}",
            f"{time_left(snapshot)} left",
            f"{recent['images_per_second']:,.0f} images/s",
            f"waiting {recent['waiting_share']:.0%}",
            limit(recent["waiting_share"], recent["stages"]).partition(";")[0],
        )
        with contextlib.suppress(OSError):  # the terminal is gone
            width, height = os.get_terminal_size(_STDERR)
            text = " | ".join(parts)[: width - 1]
            if height != self._height:
                # A new line first, since the cursor may be in the line that is kept.
                self._write(f"\n\x1b7\x1b[1;{height - 1}r\x1b8\x1b[A")
                self._height = height
            self._write(f"\x1b7\x1b[{height};1H\x1b[7m{text}\x1b[0m\x1b[K\x1b8")

    def end(self) -> None:
        """Give the line back, unless another thread shows a loader in it."""
        self._users.discard(threading.get_ident())
        if self._height and not self._users:
            with contextlib.suppress(OSError):
                self._write(f"\x1b7\x1b[r\x1b[{self._height};1H\x1b[K\x1b8")
            self._height = 0

    def _write(self, text: str) -> None:
        os.write(_STDERR, text.encode())  # at once, so that no other output comes between
