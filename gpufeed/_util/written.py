"""Writes objects as the calls that make them: the `repr` of transforms and samplers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["write_call", "written"]

_ENDS = 3
"""Numbers written of each end of a long array."""


def write_call(kind: type, arguments: Mapping[str, Any]) -> str:
    """Return the text of a call, without the arguments that equal their defaults.

    Arrays are written as lists, and long ones are abbreviated.

    Args:
        kind: the class that is called.
        arguments: by name; names that the class does not take are written last.
    """
    parameters, parts = _parameters(kind), []
    for name in dict.fromkeys([*(each for each in parameters if each in arguments), *arguments]):
        text, parameter = _text(arguments[name]), parameters.get(name)
        if parameter is None or text == _text(parameter.default):
            parts += [] if parameter else [f"{name}={text}"]
        elif parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
            parts.append(text)
        else:
            parts.append(f"{name}={text}")
    return f"{kind.__name__}({', '.join(parts)})"


def written(made: Any) -> str:
    """Return the shortest call that makes an object of the same identity.

    Each argument is an attribute, public or private, of the same name. For a class of which this
    does not hold, such as a user's, the public attributes are written instead.

    Args:
        made: an object with an `identity`.
    """
    kind = type(made)
    parameters, settings = _parameters(kind), vars(made)
    try:
        values = {
            name: settings[f"_{name}" if f"_{name}" in settings else name] for name in parameters
        }
    except KeyError:
        values = {name: value for name, value in settings.items() if not name.startswith("_")}
        return write_call(kind, values)
    if kind.__module__.startswith("gpufeed."):  # making others may be slow, or have side effects
        for name, parameter in parameters.items():
            for shorter in _shorter(values[name], parameter.default):
                try:
                    same = kind(**{**values, name: shorter}).identity == made.identity
                except (TypeError, ValueError):
                    continue
                if same:
                    values[name] = shorter
                    break
    return write_call(kind, values)


def _parameters(kind: Any) -> dict[str, inspect.Parameter]:
    # Those of `__init__`, since a `__new__` may have defaults for `pickle` and `copy` alone.
    (_, *parameters) = inspect.signature(kind.__init__).parameters.values()
    return {each.name: each for each in parameters}


def _shorter(value: Any, default: Any) -> Iterator[Any]:
    """Yield what may have been given for an attribute: its default, or one number for several."""
    if default is not inspect.Parameter.empty:
        yield default
    if isinstance(value, tuple) and value and all(isinstance(each, int | float) for each in value):
        yield value[0]
        yield round((value[-1] - value[0]) / 2, 12)  # the distance of bounds from their centre


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        if value.size <= 2 * _ENDS:
            return _text(value.tolist())
        first, last = value[:_ENDS].tolist(), value[-_ENDS:].tolist()
        return f"{_text(first)[:-1]}, ..., {_text(last)[1:]}"
    if type(value) in (list, tuple):
        inner = ", ".join(map(_text, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return getattr(value, "__name__", None) or repr(value)
