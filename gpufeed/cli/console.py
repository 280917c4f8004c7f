"""Printing, and ending, as a command does."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from gpufeed._util.sanitize import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["cell", "counted", "keep_interruptible", "say", "stdout"]


def keep_interruptible() -> None:
    """Have Ctrl-C end waits at once, as Python does.

    Polars puts a handler of its own before Python's, with system calls restarted: a main thread
    that waits for others would wait on. To be called before a command's work.
    """
    import polars  # noqa: F401 - whoever imports it later would undo what follows

    signal.siginterrupt(signal.SIGINT, True)


def stdout() -> Console:
    """Return the console that results are printed to."""
    from rich.console import Console

    return Console(highlight=False, emoji=False)


def say(console: Console, text: str) -> None:
    """Print a paragraph, unwrapped, so that a path in it stays in one piece.

    What is not printable, as escape sequences in the names of files, does not reach the terminal.
    """
    console.print(printable(text), markup=False, soft_wrap=True)


def cell(text: str, style: str = "") -> Text:
    """Return a table's cell of a text, which is no markup, and printable as in `say`."""
    from rich.text import Text

    return Text(printable(text), style=style)


def counted(number: int, noun: str, ending: str = "s") -> str:
    """Return a number with its noun: 1 batch, 2 batches."""
    return f"{number:,} {noun}{ending * (number != 1)}"
