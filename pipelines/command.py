"""The recipes' command line: each field of a `Config` is an option, each error of use one line."""

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

    Its fields are `Annotated[type, "what it is"]` with a default; numbers are 0 or more.
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


_count.__name__ = "integer"  # as argparse's errors call it


def run(main: Callable[[], object]) -> None:
    """Run a recipe's `main` and end the process as command lines do.

    The exit code is 2 after what the user can put right, said in one line, and 130 after Ctrl-C.
    """
    try:
        main()
        sys.stdout.flush()
    except (gpufeed.GpufeedError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # Nobody reads any more; nor must the interpreter's own last flush find that out.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        text = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            text = f"{error.filename}: {error.strerror}"
        print(f"error: {text}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
