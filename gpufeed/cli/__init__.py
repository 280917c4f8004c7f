"""The command line. Each command only reads its options, calls `gpufeed.tools` and prints.

What a command needs is imported within it, so that `gpufeed --help` and errors of usage are quick.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import typer

from gpufeed._util.sanitize import printable
from gpufeed.cli import bench as _bench  # noqa: F401
from gpufeed.cli import check as _check  # noqa: F401

# Imported for the commands they add, listed in this order.
from gpufeed.cli import feed as _feed  # noqa: F401
from gpufeed.cli import machine as _machine  # noqa: F401
from gpufeed.cli import orders as _orders  # noqa: F401
from gpufeed.cli import runs as _runs  # noqa: F401
from gpufeed.cli.app import FAILED, Settings, app
from gpufeed.errors import CONTINUE_HINT, DecodeError, GpufeedError

__all__ = ["app", "main"]

_USAGE, _INTERRUPTED, _BROKEN_PIPE = 2, 130, 1

# The parent of typer's own errors of usage; not imported, since it is not always click's.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: without the program's name; those of the process where none are given.

    Returns:
        Exit code: 0; 2 for what a user can put right; 130 when interrupted; 1 for anything else.
    """
    settings = Settings()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started the process
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - to the end
    try:
        code = _run(settings, arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read the output has gone; the interpreter's last flush must not fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE


def _run(settings: Settings, arguments: Sequence[str] | None) -> int:
    try:
        given = None if arguments is None else list(arguments)
        # Not standalone, or typer would print and exit by itself; it gives an exit code, or None.
        code = int(app(given, standalone_mode=False, prog_name="gpufeed", obj=settings) or 0)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        # A module that is interrupted while it is imported may say ImportError instead.
        if not _has_interrupt(error):
            return _report(error, settings.debug)
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        print("gpufeed: interrupted", file=sys.stderr)
    return code


def _has_interrupt(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _report(error: Exception, debug: bool) -> int:
    """Print an error on one line; after its traceback, if that is wanted."""
    code, text = _USAGE, str(error)
    if isinstance(error, _UsageError):
        text = error.format_message().replace("Value error, ", "")
        context = getattr(error, "ctx", None)
        text = f"{text.rstrip('.')}; see `{context.command_path if context else 'gpufeed'} --help`"
    elif isinstance(error, GpufeedError):
        notes = [note for note in getattr(error, "__notes__", []) if note != CONTINUE_HINT]
        if isinstance(error, DecodeError):
            notes.append(
                "`gpufeed check DATA --parquet FILE` lists all that are bad, and `--without FILE` "
                "leaves them out"
            )
        text = "; ".join([text, *notes])
    elif isinstance(error, OSError):
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        text = ": ".join([*names, error.strerror or text])
    else:
        code = FAILED
        text = f"unexpected {type(error).__name__}: {text}; for where, run `gpufeed --debug ...`"
    if debug:
        for line in "".join(traceback.format_exception(error)).rstrip("\n").split("\n"):
            print(printable(line), file=sys.stderr)
    print(f"gpufeed: error: {printable(' '.join(text.split()))}", file=sys.stderr)
    return code
