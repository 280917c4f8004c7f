"""A loader's state: how far it is, and of what; a few values that a person can read and edit."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from gpufeed.errors import StateError, StateMismatchError
from gpufeed.identity import THEN

__all__ = [
    "VERSION",
    "check_state",
    "decode_state",
    "encode_state",
    "make_state",
]

VERSION = 1
_TOLD = 2000
"""Letters of a text that an error tells."""
_MOST_RECORDS = (1 << 63) - 1


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
    before, now = was.split(THEN), here.split(THEN)
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
