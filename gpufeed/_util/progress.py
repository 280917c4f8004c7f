"""A progress bar on standard error, shown by default only on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

__all__ = ["progress"]


@contextlib.contextmanager
def progress(
    description: str, total: int | None, *, show: bool | None = None, unit: str = ""
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar while the block runs.

    Args:
        description: text before the bar.
        total: total number of steps; None if unknown.
        show: whether to show the bar; None shows it on a terminal only.
        unit: what a step is, such as "images"; the bar then also shows the rate.

    Yields:
        A function to call, from any thread, with the number of steps done since its last call.
    """
    if show is None:
        show = sys.stderr.isatty()
    if not show:
        yield lambda _done: None
        return

    # Imported lazily, since rich is slow to import and many runs show nothing.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed or 0:,.0f} {unit}/s")

    columns: list[ProgressColumn] = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    ]
    if unit:
        columns.append(Rate())
    # In a notebook rich would need ipywidgets; as plain text it shows the bar when it is complete.
    console = Console(stderr=True, force_jupyter=False)
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done: bar.advance(task, done)
