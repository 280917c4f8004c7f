"""Printing and interrupting, as all commands do it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from gpufeed._util.sanitize import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["cell", "counted", "keep_interruptible", "say", "stdout"]


def keep_interruptible() -> None:
    """Let Ctrl-C interrupt waits at once, as in plain Python.

    Polars installs a signal handler that restarts system calls, so a main thread that waits for
    others would keep waiting. Call this before a command's work.
    """
    import polars  # noqa: F401 - a later import would undo the next line

    signal.siginterrupt(signal.SIGINT, True)


def stdout() -> Console:
    """Return the console that results are printed to."""
    from rich.console import Console

    return Console(highlight=False, emoji=False)


def say(console: Console, text: str) -> None:
    """Print a paragraph without wrapping it, so that paths in it stay in one piece.

    Unprintable characters, such as escape sequences in file names, are escaped.
    """
    console.print(printable(text), markup=False, soft_wrap=True)


def cell(text: str, style: str = "") -> Text:
    """Return a table cell of literal text, without markup, escaped as in `say`."""
    from rich.text import Text

    return Text(printable(text), style=style)


def counted(number: int, noun: str, ending: str = "s") -> str:
    """Return a number with its noun: 1 batch, 2 batches."""
    return f"{number:,} {noun}{ending * (number != 1)}"
