"""The command `gpufeed` itself; other modules add its commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

__all__ = ["FAILED", "Settings", "app"]

FAILED = 1
"""Exit code of what was found wrong, or went wrong."""


@dataclass
class Settings:
    """What is given before the command."""

    debug: bool = False


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        import gpufeed

        typer.echo(f"gpufeed {gpufeed.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _before(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """An image feed for GPU training, in which every batch has a number.

    Begin with `gpufeed demo`; it needs no data.
    """
    context.obj.debug = debug
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
