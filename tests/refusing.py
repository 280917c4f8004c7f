"""What may stand in files that mean harm, and what is said by whoever refuses it."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from gpufeed import Manifest

QUICK = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
MANIFEST = Manifest(
    pl.DataFrame(
        {
            "path": [f"{number}.jpg" for number in range(20)],
            "label": [0, 1] * 10,
            "width": [40] * 20,
            "height": [30] * 20,
        }
    ),
    "/nowhere",
    ["auk", "wren"],
)
NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30), st.sampled_from([2**31, 2**63, 2**64, -1, 0]), st.floats()
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=8,
)


def refusal(ask: Callable[[], object], error: type[Exception]) -> str:
    """What is said where something is refused with this error; nothing where it is not."""
    try:
        ask()
    except error as refused:
        return str(refused) or repr(refused)
    return ""


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth
