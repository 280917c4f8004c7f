"""Errors on the command line: options in the place of the arguments of gpufeed's functions."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["ELSEWHERE", "as_options"]

_DROP = 'on_bad_image="drop"'
_LEFT = re.compile(r"(?<![^\s(])[a-z_]+=")
ELSEWHERE = "arguments without an option are for Python; a manifest that it saves may be DATA here"


def as_options(text: str, options: Mapping[str, str]) -> str:
    """Return an error's text that speaks of options: `root=` becomes `--root`.

    Args:
        text: as in Python.
        options: the command's options by the names of their arguments.
    """
    if "without" in options:
        text = text.replace(
            _DROP, f"{options['without']} FILE, which `gpufeed check --parquet FILE` writes"
        )
    if options:
        names = "|".join(options)
        text = re.sub(rf"^({names})(?= is | does not apply)", lambda name: options[name[1]], text)
        text = re.sub(
            # Not within the name of a file.
            rf"(?<![^\s(])({names})=(True\b)?",
            lambda found: options[found[1]] + " " * (found[2] is None),
            text,
        )
    return f"{text}; {ELSEWHERE}" if _LEFT.search(text) else text
