"""The recipes' command line: each field of a `Config` is an option, each user error is one line."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar, get_args, get_origin, get_type_hints

import gpufeed

__all__ = ["options", "run"]

_Config = TypeVar("_Config")


def options(
    config: type[_Config], description: str | None, arguments: Sequence[str] | None
) -> _Config:
    """Return a `Config` from the command line.

    Each field is `Annotated[type, "help text"]` and has a default; numbers are 0 or more.
    """
    parser = argparse.ArgumentParser(
        description=inspect.cleandoc(description or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    types = get_type_hints(config, include_extras=True)
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        kind, help_text = get_args(types[field.name])
        default = f" (default: {field.default})" if field.default != "" else ""
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=_count if kind is int else str,
            choices=get_args(kind) if get_origin(kind) is Literal else None,
            default=field.default,
            help=help_text + default,
        )
    return config(**vars(parser.parse_args(arguments)))


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is less than 0")
    return number


_count.__name__ = "integer"  # the name in argparse's errors


def run(main: Callable[[], object]) -> None:
    """Run a recipe's `main` and exit.

    The exit code is 2 after an error that the user can correct, which is printed on one line, and
    130 after Ctrl-C.
    """
    try:
        main()
        sys.stdout.flush()
    except (gpufeed.GpufeedError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # The reader of the output is gone; the interpreter's last flush must not fail as well.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        text = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            text = f"{error.filename}: {error.strerror}"
        print(f"error: {text}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
