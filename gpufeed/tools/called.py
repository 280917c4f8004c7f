"""A transform with the text of the call that made it, so that captions match what was run."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Called", "call", "purpose", "signature"]


@dataclass(frozen=True)
class Called:
    """The result of a call, and its text."""

    text: str
    made: Any


def call(kind: Callable[..., Any], *arguments: Any, **named: Any) -> Called:
    """Call a class; arguments, and lists of them, may be `Called` themselves."""
    parts = [_text(value) for value in arguments]
    parts += [f"{name}={_text(value)}" for name, value in named.items()]
    made = kind(*map(_made, arguments), **{name: _made(each) for name, each in named.items()})
    return Called(f"{kind.__name__}({', '.join(parts)})", made)


def signature(kind: type) -> str:
    """Return the signature of a class as text, with its defaults."""
    parts, starred = [], False
    for each in inspect.signature(kind).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        optional = each.default is not each.empty
        parts.append(f"{each.name}={_text(each.default)}" if optional else each.name)
    return f"{kind.__name__}({', '.join(parts)})"


def purpose(kind: type) -> str:
    """Return the first sentence of a class's documentation, without its full stop."""
    first = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    return " ".join(first.split()).removesuffix(".")


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return [_made(each) for each in value]
    return value.made if isinstance(value, Called) else value


def _text(value: Any) -> str:
    if isinstance(value, Called):
        return value.text
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_text, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, float):
        return repr(round(value, 4))
    return getattr(value, "__name__", None) or repr(value)
