"""A loader's state: how far it is, and of what; a few values that a person can read and edit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from gpufeed.errors import StateError

__all__ = ["VERSION", "check_state", "decode_state", "digest", "encode_state", "make_state"]

VERSION = 1


def digest(value: object) -> str:
    """Return a fingerprint of a JSON value: the same on every machine."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def make_state(records: int, fingerprints: Mapping[str, str]) -> dict[str, Any]:
    """Return the state of a loader that stands at position `records` of the global order."""
    return {"version": VERSION, "records": records, "fingerprints": dict(fingerprints)}


def check_state(
    state: Mapping[str, Any], fingerprints: Mapping[str, str], ignore: Collection[str]
) -> int:
    """Return the position a state stands at, once it is known to be a state of this loader.

    Args:
        state: what `make_state` returned, possibly edited.
        fingerprints: those of this loader.
        ignore: names of fingerprints that may differ.

    Raises:
        StateError: it is malformed, of another version, or of something else.
    """
    unknown = set(ignore) - set(fingerprints)
    if unknown:
        raise StateError(f"ignore names {sorted(unknown)}; it may name {sorted(fingerprints)}")
    if not isinstance(state, Mapping) or "version" not in state:
        raise StateError(f"this is no state of a gpufeed loader: {_short(state)}")
    if state["version"] != VERSION:
        raise StateError(
            f"the state has version {_short(state['version'])}, this gpufeed reads {VERSION}; load "
            "it with the gpufeed that saved it"
        )
    records, saved = state.get("records"), state.get("fingerprints")
    if isinstance(records, bool) or not isinstance(records, int) or records < 0:
        raise StateError(f"the state's 'records' is {_short(records)}, no integer of 0 or more")
    if not isinstance(saved, Mapping):
        raise StateError(f"the state's 'fingerprints' is {_short(saved)}, no mapping")
    changed = [
        name
        for name, here in fingerprints.items()
        if name not in ignore and saved.get(name) != here
    ]
    if changed:
        raise StateError(
            f"the state was saved with another {' and another '.join(changed)} than this loader "
            "has, so the batches to come would not be those of the run that saved it; to load it "
            f"all the same, pass ignore={tuple(changed)!r}"
        )
    return records


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
    except (ValueError, RecursionError) as error:
        raise StateError(f"the state is no JSON: {error}") from None
    if not isinstance(state, dict):
        raise StateError(f"this is no state of a gpufeed loader: {_short(state)}")
    return state


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
