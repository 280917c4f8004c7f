"""`gpufeed info`: installed versions and available devices."""

from __future__ import annotations

from gpufeed.cli.app import app
from gpufeed.cli.console import cell, stdout

__all__: list[str] = []


@app.command()
def info() -> None:
    """List versions and devices, what is missing, and how to install it."""
    from rich import box
    from rich.table import Table

    from gpufeed.tools.info import list_devices, list_versions

    console = stdout()
    for title, facts in (("Versions", list_versions()), ("Devices", list_devices())):
        table = Table(title=title, title_justify="left", box=box.SIMPLE, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for fact in facts:
            value = cell(fact.value)
            if fact.hint:
                value.append(f"\n{fact.hint}", style="yellow")
            table.add_row(fact.name, value)
        console.print(table)
