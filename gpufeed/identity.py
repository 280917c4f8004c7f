"""Identities of samplers and transforms as text, kind(name=value, ...), and back.

They are read with a grammar of their own, of hardly more than is written here: Python's parser
takes minutes over some texts of 2^18 letters, and warns on standard error of others.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpufeed._util.sanitize import sanitize
from gpufeed.errors import StateError

__all__ = ["THEN", "describe", "describe_all", "parse_all"]

THEN = " | "
"""Between one identity and the next."""
_LONGEST = 1 << 18
"""Letters of a text that is parsed; those of presets have thousands."""
_MOST_DIGITS = 100
_DEEPEST = 100
"""Lists and mappings in one another."""
_TOKEN = re.compile(
    r"""\ *+(?:
    (?P<string>'(?:[^'\\\n\r]|\\.)*+'|"(?:[^"\\\n\r]|\\.)*+")
    |(?P<number>-?[0-9]++(?:\.[0-9]++)?+(?:e[+-]?[0-9]++)?+)
    |(?P<name>[^\W0-9][^][(){}:,=|'"\s]*+)
    |(?P<mark>[][(){}:,=|])
    )\ *+""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"""\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4})|([\\'"nrt])|(?P<other>.?))"""
)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_NAMED = {"None": None, "True": True, "False": False}


def describe(identity: Mapping[str, object]) -> str:
    """Return an identity as a person reads it: kind(name=value, ...), as Python would write it.

    Args:
        identity: JSON values; "kind" is the name of the class.
    """
    settings = {name: _plain(value) for name, value in identity.items() if name != "kind"}
    listed = ", ".join(f"{name}={settings[name]!r}" for name in sorted(settings))
    return f"{identity['kind']}({listed})"


def describe_all(identities: Sequence[Mapping[str, object]]) -> str:
    """Return several identities, in their order."""
    return THEN.join(describe(identity) for identity in identities)


def _plain(value: object) -> object:
    """As JSON has it, whatever kind of sequence it was."""
    return json.loads(json.dumps(value))


def parse_all(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the kinds and settings that `describe_all` or `describe` wrote.

    Raises:
        StateError: it is no such text.
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError("it is too long")
        return _Parser(text).calls()
    except ValueError as error:
        raise StateError(
            f"{_told(text)} is no fingerprint of a sampler or transforms: {error}"
        ) from None


def _told(text: str) -> str:
    return sanitize(repr(text), 40)


class _Parser:
    """Goes through a text once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._next = 0
        self._kind = self._token = ""
        self._advance()

    def _advance(self) -> str:
        """Go past a token, and return it."""
        passed = self._token
        self._at = self._next
        found = _TOKEN.match(self._text, self._at)
        if found is not None:
            self._kind = found.lastgroup or ""
            self._token, self._next = found[self._kind], found.end()
        elif self._at == len(self._text):
            self._kind = self._token = ""
        else:
            raise self._wrong()
        return passed

    def _wrong(self) -> ValueError:
        return ValueError(f"{_told(self._text[self._at :])} at its letter {self._at:,}")

    def _take(self, mark: str) -> bool:
        """Go past a mark, if it is there."""
        if self._kind != "mark" or self._token != mark:
            return False
        self._advance()
        return True

    def _demand(self, mark: str) -> None:
        if not self._take(mark):
            raise self._wrong()

    def _name(self) -> str:
        if self._kind != "name" or not self._token.isidentifier():
            raise self._wrong()
        return self._advance()

    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """All identities."""
        found = [self._call()]
        while self._take("|"):
            found.append(self._call())
        if self._token:
            raise self._wrong()
        return found

    def _call(self) -> tuple[str, dict[str, Any]]:
        kind = self._name()
        self._demand("(")
        settings: dict[str, Any] = {}
        while not self._take(")"):
            if settings:
                self._demand(",")
            name = self._name()
            if name in settings:
                raise ValueError(f"{_told(name)} is there twice")
            self._demand("=")
            settings[name] = self._value(_DEEPEST)
        return kind, settings

    def _value(self, depth: int) -> Any:
        if not depth:
            raise ValueError(f"more than {_DEEPEST} lists and mappings in one another")
        if self._take("["):
            return self._list(depth)
        if self._take("{"):
            return self._dict(depth)
        kind, token = self._kind, self._token
        if kind == "string":
            value: Any = _unquoted(token)
        elif kind == "name" and token in _NAMED:
            value = _NAMED[token]
        elif kind == "number" and len(token) <= _MOST_DIGITS:
            value = float(token) if set(token) & set(".e") else int(token)
            if not math.isfinite(value):
                raise self._wrong()
        else:
            raise self._wrong()
        self._advance()
        return value

    def _list(self, depth: int) -> list[Any]:
        values: list[Any] = []
        while not self._take("]"):
            if values:
                self._demand(",")
            values.append(self._value(depth - 1))
        return values

    def _dict(self, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not self._take("}"):
            if values:
                self._demand(",")
            if self._kind != "string":
                raise self._wrong()
            key = _unquoted(self._advance())
            if key in values:
                raise ValueError(f"{_told(key)} is there twice")
            self._demand(":")
            values[key] = self._value(depth - 1)
        return values


def _unquoted(token: str) -> str:
    """What a string is that `repr` wrote."""

    def letter(found: re.Match[str]) -> str:
        if found["other"] is not None:
            raise ValueError(f"{_told(found[0])} in a string")
        *codes, one = found.groups()[:4]
        code = next(filter(None, codes), None)
        return _ESCAPED.get(one, one) if code is None else chr(int(code, 16))

    return _ESCAPE.sub(letter, token[1:-1])
