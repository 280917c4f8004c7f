"""The devices of laws that hold on both, and the openers on each."""

from __future__ import annotations

import pytest

from benchmarks.gpu.choices import choices

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]

PURE_WAYS, WAYS = (
    [
        pytest.param(
            {"device": device, "opener": choice.opener},
            id=f"{device}-{choice.name}",
            marks=[pytest.mark.gpu] if device == "cuda" else [],
        )
        for device in ("cpu", "cuda")
        for choice in choices(device)
        if choice.is_pure or mixed
    ]
    for mixed in (False, True)
)
"""Options of a `Loader`, for each opener of each device; the first of one kind of decoder alone."""
