"""The state of a loader: its position and fingerprints, in values a person can read and edit."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from gpufeed._util.identity import encode
from gpufeed._util.sanitize import sanitize
from gpufeed.errors import StateError, StateMismatchError

__all__ = ["VERSION", "check_state", "decode_state", "encode_state", "make_state", "read_state"]

VERSION = 1
_MAX_SHOWN = 2000
"""Characters of a fingerprint that an error message shows."""
_MAX_PARTS = 8
"""Values that an error message shows one by one."""


def make_state(records: int, fingerprints: Mapping[str, str], quarantine: str) -> dict[str, Any]:
    """Return the state of a loader at position `records` of the global order.

    Args:
        records: the position.
        fingerprints: the manifest's fingerprint, the identities of sampler and transforms as JSON,
            and the opener, with shares as JSON.
        quarantine: the failures met so far, as text.
    """
    return {
        "version": VERSION,
        "records": records,
        "fingerprints": dict(fingerprints),
        "quarantine": quarantine,
    }


def read_state(state: Mapping[str, Any]) -> tuple[int, dict[str, str]]:
    """Return the position in a state, and its fingerprints.

    Raises:
        StateError: the state is malformed.
        StateMismatchError: it has another version.
    """
    if not isinstance(state, Mapping) or "version" not in state:
        raise StateError(f"this is not the state of a gpufeed loader: {_short(state)}")
    if state["version"] != VERSION:
        version = _short(state["version"])
        raise StateMismatchError(
            f"the state has version {version}, and this gpufeed reads version {VERSION}; load it "
            "with the gpufeed that saved it, or go to its batch with seek()",
            {"version": (version, str(VERSION))},
        )
    records, saved = state.get("records"), state.get("fingerprints")
    if type(records) is not int or records < 0:
        raise StateError(
            f"the state's 'records' is {_short(records)}; it must be an integer of 0 or more"
        )
    names = ("manifest", "sampler", "transforms")
    if (
        not isinstance(saved, Mapping)
        or not set(names) <= set(saved)
        or not all(isinstance(each, str) for each in saved.values())
    ):
        raise StateError(
            f"the state's 'fingerprints' is {_short(saved)}; it must map {', '.join(names)} to "
            "strings"
        )
    return records, dict(saved)


def check_state(
    state: Mapping[str, Any],
    fingerprints: Mapping[str, str],
    ignore: Collection[str],
    new_column: Callable[[str], str | None],
) -> int:
    """Return the position in a state, after checking that the state fits this loader.

    Args:
        state: a result of `make_state`, possibly edited.
        fingerprints: those of this loader.
        ignore: names of fingerprints that may differ.
        new_column: returns the column without which the manifest would have a fingerprint, if any.

    Raises:
        StateError: the state is malformed, or `ignore` has an unknown name.
        StateMismatchError: it has another version or other fingerprints.
    """
    unknown = set(ignore) - set(fingerprints)
    if unknown:
        raise StateError(
            f"ignore has {sorted(unknown)}; it may have names from {sorted(fingerprints)}"
        )
    records, saved = read_state(state)
    changed = {}
    for name, here in fingerprints.items():
        if name not in ignore and saved.get(name, here) != here:
            was, now = _values(saved[name]), _values(here)
            if was != now:
                changed[name] = was, now
    if changed:
        differences = [each for name, both in changed.items() for each in _differences(name, *both)]
        if "manifest" in changed and (column := new_column(saved["manifest"])) is not None:
            differences.append(f"the manifest's column {column!r} is new")
        details = "; ".join(differences)
        raise StateMismatchError(
            f"the state does not match this loader's {' and '.join(changed)}: {details}; the next "
            "batches would differ from those of the run that saved it; to load it anyway, pass "
            f"ignore={tuple(changed)!r}",
            {name: (_text(was), _text(now)) for name, (was, now) in changed.items()},
        )
    return records


def _values(fingerprint: str) -> Any:
    """Return an identity as JSON values; other text unchanged."""
    if fingerprint.startswith(("{", "[")):
        try:
            return json.loads(fingerprint)
        except ValueError:
            pass
    return fingerprint


def _differences(where: str, was: Any, here: Any) -> Iterator[str]:
    """Yield the old and the new value of each part that differs."""
    parts: list[tuple[str, Any, Any]] = []
    if _kind(was) and _kind(was) == _kind(here):
        names = sorted({*was, *here})
        parts = [(f" {_kind(was)}.{name}", was.get(name), here.get(name)) for name in names]
    elif _has_parts(was) and _has_parts(here) and len(was) == len(here):
        pairs = enumerate(zip(was, here, strict=True))
        parts = [(f"[{place}]", one, other) for place, (one, other) in pairs]
    changed = [each for each in parts if each[1] != each[2]]
    for part, one, other in changed[:_MAX_PARTS]:
        yield from _differences(where + part, one, other)
    if len(changed) > _MAX_PARTS:
        yield f"{len(changed) - _MAX_PARTS} further values of {where} differ"
    if not parts:
        yield f"{where} was {_text(was)[:_MAX_SHOWN]}, is {_text(here)[:_MAX_SHOWN]}"


def _kind(identity: Any) -> Any:
    return identity.get("kind") if isinstance(identity, dict) else None


def _has_parts(values: Any) -> bool:
    """Return whether `values` is a list to be compared part by part: nested, or long."""
    return isinstance(values, list) and (
        len(values) > _MAX_PARTS or all(isinstance(each, dict | list) for each in values)
    )


def _text(values: Any) -> str:
    return values if isinstance(values, str) else encode(values)


def encode_state(state: Mapping[str, Any]) -> bytes:
    """Return a state as JSON."""
    return json.dumps(state, indent=1).encode()


def decode_state(text: bytes | str) -> dict[str, Any]:
    """Return the state in a JSON text.

    Raises:
        StateError: the text is not JSON, or not a JSON object.
    """
    try:
        state = json.loads(text)
    except (ValueError, TypeError) as error:
        raise StateError(f"the state is not valid JSON: {error}") from None
    if not isinstance(state, dict):
        raise StateError(f"this is not the state of a gpufeed loader: {_short(state)}")
    return state


def _short(value: object) -> str:
    return sanitize(repr(value), 60)
