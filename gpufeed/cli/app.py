"""The command `gpufeed` itself; other modules add its subcommands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

__all__ = ["FAILED", "Settings", "app"]

FAILED = 1
"""Exit code of a failed check or an unexpected error."""


@dataclass
class Settings:
    """What is known of a call before its subcommand runs.

    Attributes:
        debug: whether to print tracebacks.
        options: the subcommand's options by the names of their arguments.
    """

    debug: bool = False
    options: dict[str, str] = field(default_factory=dict)


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
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of errors.")] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Feed GPU training with images, in batches that can be made again from their number.

    Start with `gpufeed demo`; it needs no data.
    """
    context.obj.debug = debug
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        return
    command = context.command.commands.get(context.invoked_subcommand)  # type: ignore[attr-defined]
    options = (each for each in getattr(command, "params", ()) if each.opts[0].startswith("--"))
    context.obj.options = {each.name: each.opts[0] for each in options}
