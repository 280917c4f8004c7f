"""`gpufeed top`: the loaders that run on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from gpufeed.cli.app import app
from gpufeed.cli.console import stdout
from gpufeed.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from gpufeed.live.snapshots import Snapshot

__all__: list[str] = []

_SECONDS = 1.0


@app.command()
def top(
    pid: Annotated[
        int | None,
        typer.Argument(
            help="A process that feeds, or one that started several, such as torchrun; by default "
            "all of yours."
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print once instead of watching.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures once, as JSON.")
    ] = False,
) -> None:
    """Watch running loaders: their speed, where time goes, how much is left. `q` quits."""
    from gpufeed.live.view import view

    found = _find(pid)
    if pid is not None and not found:
        raise ConfigError(
            f"process {pid} feeds nothing: it is not yours or not on this machine, has iterated "
            "over no loader for a second, or has GPUFEED_LIVE=0; `gpufeed top` lists those that "
            "feed"
        )
    console = stdout()
    if as_json:
        typer.echo(json.dumps(found))
    elif once or not console.is_terminal:
        console.print(view(found))
    else:
        with contextlib.suppress(KeyboardInterrupt):
            _watch(console, pid)


def _find(pid: int | None) -> list[Snapshot]:
    from gpufeed.live.snapshots import read_snapshots

    return [each for each in read_snapshots() if pid in (None, each["pid"], each["parent"])]


def _watch(console: Console, pid: int | None) -> None:
    """Show loaders until `q` is pressed, or the process feeds no more."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from gpufeed.live.view import view

    with _keys() as key, Live(console=console, screen=True, auto_refresh=False) as live:
        while (found := _find(pid)) or pid is None:
            live.update(Group(view(found), Text("\nq quits", "dim")), refresh=True)
            if key() == "q":
                return


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """Yield a function that waits a second for a key, and returns it or ""."""

    def pause() -> str:
        time.sleep(_SECONDS)
        return ""

    if not sys.stdin.isatty():
        yield pause
        return
    terminal = sys.stdin.fileno()

    def key() -> str:
        # Not by `sys.stdin`, whose buffer would hide further keys from `select`.
        ready = select.select([terminal], [], [], _SECONDS)[0]
        return os.read(terminal, 1).decode(errors="replace") if ready else ""

    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield key
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
