"""The command line. Each command reads its options, calls `gpufeed.tools` and prints.

Commands import what they need when they run, so that `gpufeed --help` and usage errors are fast.
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
from gpufeed.cli import doctor as _doctor  # noqa: F401

# Each import registers commands; `gpufeed --help` lists them in this order.
from gpufeed.cli import feed as _feed  # noqa: F401
from gpufeed.cli import machine as _machine  # noqa: F401
from gpufeed.cli import orders as _orders  # noqa: F401
from gpufeed.cli import prepare as _prepare  # noqa: F401
from gpufeed.cli import runs as _runs  # noqa: F401
from gpufeed.cli import stage as _stage  # noqa: F401
from gpufeed.cli import top as _top  # noqa: F401
from gpufeed.cli.app import FAILED, Settings, app
from gpufeed.cli.as_options import as_options
from gpufeed.errors import CONTINUE_HINT, DecodeError, GpufeedError

__all__ = ["app", "main"]

_USAGE, _INTERRUPTED, _BROKEN_PIPE = 2, 130, 1

# The parent of typer's usage errors; not imported from click, since typer may bundle its own.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: the arguments without the program's name; None for those of the process.

    Returns:
        The exit code: 0 for success, 2 for an error the user can correct, 130 for an interruption,
        1 for anything else.
    """
    settings = Settings()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - open until exit
    try:
        code = _run(settings, arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of the output is gone; the interpreter's last flush must not fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE


def _run(settings: Settings, arguments: Sequence[str] | None) -> int:
    try:
        given = None if arguments is None else list(arguments)
        # Standalone, typer would print errors and exit by itself.
        code = int(app(given, standalone_mode=False, prog_name="gpufeed", obj=settings) or 0)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        # Interrupting an import may raise ImportError instead.
        if not _has_interrupt(error):
            return _report(error, settings)
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        print("gpufeed: interrupted", file=sys.stderr)
    return code


def _has_interrupt(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _report(error: Exception, settings: Settings) -> int:
    """Print an error on one line, if asked for after its traceback; return the exit code."""
    code, text = _USAGE, str(error)
    if isinstance(error, _UsageError):
        text = error.format_message().replace("Value error, ", "")
        context = getattr(error, "ctx", None)
        text = f"{text.rstrip('.')}; see `{context.command_path if context else 'gpufeed'} --help`"
    elif isinstance(error, GpufeedError):
        notes = [note for note in getattr(error, "__notes__", []) if note != CONTINUE_HINT]
        text = as_options(text, settings.options)
        if isinstance(error, DecodeError):
            notes.append(
                "`gpufeed check DATA --parquet FILE` lists all bad images, and `--without FILE` "
                "leaves them out"
            )
        text = "; ".join([text, *notes])
    elif isinstance(error, OSError):
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        text = ": ".join([*names, error.strerror or text])
        if isinstance(error, FileExistsError | NotADirectoryError):
            text += "; name a new folder"
    else:
        code = FAILED
        name = type(error).__name__
        text = f"unexpected {name}: {text}; run `gpufeed --debug ...` for the traceback"
    if settings.debug:
        for line in "".join(traceback.format_exception(error)).rstrip("\n").split("\n"):
            print(printable(line), file=sys.stderr)
    print(f"gpufeed: error: {printable(' '.join(text.split()))}", file=sys.stderr)
    return code
