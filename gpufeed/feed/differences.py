"""Where two identities differ, named as deep as the difference lies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpufeed._util.identity import encode

__all__ = ["differences", "text_of", "values_of"]

_MAX_PARTS = 8
"""Parts of one value that are named one by one."""


def values_of(fingerprint: str) -> Any:
    """Return an identity as JSON values; other text unchanged."""
    if fingerprint.startswith(("{", "[")):
        try:
            return json.loads(fingerprint)
        except ValueError:
            pass
    return fingerprint


def differences(where: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name and both values of each part that differs.

    Args:
        where: the name of the whole.
        one: a result of `values_of`.
        other: another.
    """
    parts: list[tuple[str, Any, Any]] = []
    if _kind(one) and _kind(one) == _kind(other):
        names = sorted({*one, *other})
        parts = [(f" {_kind(one)}.{name}", one.get(name), other.get(name)) for name in names]
    elif _has_parts(one) and _has_parts(other) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        parts = [(f"[{place}]", first, second) for place, (first, second) in pairs]
    changed = [each for each in parts if each[1] != each[2]]
    for part, first, second in changed[:_MAX_PARTS]:
        yield from differences(where + part, first, second)
    if further := changed[_MAX_PARTS:]:
        _, ones, others = zip(*further, strict=True)
        yield f"{len(further)} further values of {where}", [*ones], [*others]
    if not parts:
        yield where, one, other


def _kind(identity: Any) -> Any:
    return identity.get("kind") if isinstance(identity, dict) else None


def _has_parts(values: Any) -> bool:
    """Return whether `values` is a list to be compared part by part: nested, or long."""
    return isinstance(values, list) and (
        len(values) > _MAX_PARTS or all(isinstance(each, dict | list) for each in values)
    )


def text_of(values: Any) -> str:
    """Return JSON values as text."""
    return values if isinstance(values, str) else encode(values)
