"""A loader's state: how far it is, and of what; a few values that a person can read and edit."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gpufeed.errors import StateError, StateMismatchError

__all__ = [
    "VERSION",
    "check_state",
    "decode_state",
    "describe",
    "describe_all",
    "encode_state",
    "make_state",
    "parse_all",
]

VERSION = 1
_THEN = " | "
_LONGEST = 1 << 18
"""Letters of a text that is parsed: those of presets have thousands, and a parser takes a thousand
bytes of memory for a letter."""
_STRING = re.compile(r"""'(?:[^'\\\n\r]|\\.)*+'?|"(?:[^"\\\n\r]|\\.)*+"?""")
_NOT_WRITTEN = re.compile(r"\w'|''|[\n\r]")
"""A prefix of a string, two strings side by side (as a triple quote is), and lines."""
_TOLD = 2000
"""Letters of a text that an error tells."""
_MOST_RECORDS = (1 << 63) - 1


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
    return _THEN.join(describe(identity) for identity in identities)


def parse_all(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the kinds and settings that `describe_all` or `describe` wrote.

    Raises:
        StateError: it wrote no such text.
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError("it is too long")
        # Python's parser goes through an f-string again for each of its fields.
        if _NOT_WRITTEN.search(_STRING.sub("'", text)):
            raise ValueError("no string is written in this way")
        # As one expression: | is the operator between calls.
        node: ast.expr = ast.parse(text, mode="eval").body
        calls: list[ast.expr] = []
        while isinstance(node, ast.BinOp):
            calls.insert(0, node.right)
            node = node.left
        found = []
        for call in [node, *calls]:
            if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
                raise ValueError("not a kind and its settings")
            settings = {}
            for each in call.keywords:
                if each.arg is None:
                    raise ValueError("a setting has no name")
                settings[each.arg] = ast.literal_eval(each.value)
            found.append((call.func.id, settings))
        return found
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise StateError(f"{_short(text)} is no fingerprint of a sampler or transforms") from error


def _plain(value: object) -> object:
    """As JSON has it, whatever kind of sequence it was."""
    return json.loads(json.dumps(value))


def make_state(records: int, fingerprints: Mapping[str, str], quarantine: str) -> dict[str, Any]:
    """Return the state of a loader that stands at position `records` of the global order.

    Args:
        records: the position.
        fingerprints: of what it is a state.
        quarantine: the failures met so far, as text.
    """
    return {
        "version": VERSION,
        "records": records,
        "fingerprints": dict(fingerprints),
        "quarantine": quarantine,
    }


def check_state(
    state: Mapping[str, Any], fingerprints: Mapping[str, str], ignore: Collection[str]
) -> int:
    """Return the position a state stands at, once it is known to be a state of this loader.

    Args:
        state: what `make_state` returned, possibly edited.
        fingerprints: those of this loader.
        ignore: names of fingerprints that may differ.

    Raises:
        StateError: it is malformed.
        StateMismatchError: it is of another version, or of something else.
    """
    unknown = set(ignore) - set(fingerprints)
    if unknown:
        raise StateError(f"ignore names {sorted(unknown)}; it may name {sorted(fingerprints)}")
    if not isinstance(state, Mapping) or "version" not in state:
        raise StateError(f"this is no state of a gpufeed loader: {_short(state)}")
    if state["version"] != VERSION:
        version = _short(state["version"])
        raise StateMismatchError(
            f"the state has version {version}, this gpufeed reads {VERSION}; load it with the "
            "gpufeed that saved it, or go to its batch with seek()",
            {"version": (version, str(VERSION))},
        )
    records, saved = state.get("records"), state.get("fingerprints")
    if type(records) is not int or not 0 <= records <= _MOST_RECORDS:
        raise StateError(
            f"the state's 'records' is {_short(records)}, no integer from 0 to 2^63 - 1"
        )
    if not isinstance(saved, Mapping):
        raise StateError(f"the state's 'fingerprints' is {_short(saved)}, no mapping")
    changed = {
        name: (_text(saved.get(name)), here)
        for name, here in fingerprints.items()
        if name not in ignore and saved.get(name) != here
    }
    if changed:
        told = "; ".join(_difference(name, *both) for name, both in changed.items())
        raise StateMismatchError(
            f"the state was saved with another {' and another '.join(changed)}: {told}; the "
            "batches to come would not be those of the run that saved it; to load it all the same, "
            f"pass ignore={tuple(changed)!r}",
            changed,
        )
    return records


def _difference(name: str, was: str, here: str) -> str:
    """From what to what; of lists only the parts that differ."""
    before, now = was.split(_THEN), here.split(_THEN)
    if len(before) == len(now) > 1:
        return "; ".join(
            f"{name}[{place}] was {one[:_TOLD]}, is {other}"
            for place, (one, other) in enumerate(zip(before, now, strict=True))
            if one != other
        )
    return f"{name} was {was[:_TOLD]}, is {here}"


def encode_state(state: Mapping[str, Any]) -> bytes:
    """Return a state as JSON."""
    return json.dumps(state, indent=1).encode()


def decode_state(text: bytes | str) -> dict[str, Any]:
    """Return the state that some JSON holds.

    Raises:
        StateError: it holds none.
    """
    try:
        state = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise StateError(f"the state is no JSON: {error}") from None
    if not isinstance(state, dict):
        raise StateError(f"this is no state of a gpufeed loader: {_short(state)}")
    return state


def _text(value: object) -> str:
    return value if isinstance(value, str) else _short(value)


def _short(value: object) -> str:
    try:
        shown = repr(value)
    except (RecursionError, ValueError):  # of lists in lists, and of numbers too long
        return type(value).__name__
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
