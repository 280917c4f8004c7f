"""Names and shares of openers: what they stand for, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpufeed import ConfigError
from gpufeed.open.kinds import default_kind, identify, resolve_shares


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_name_is_one_share(on_gpu: bool) -> None:
    assert resolve_shares("auto", "threads", on_gpu=on_gpu) == {"threads": 1}
    for name in ("cuda", "cuda_windows", "hardware") if on_gpu else ("threads", "graph"):
        assert resolve_shares(name, "threads", on_gpu=on_gpu) == {name: 1}
        assert identify(resolve_shares({name: 1}, "threads", on_gpu=on_gpu)) == name


def test_a_gpu_decodes_images_of_any_size() -> None:
    for largest in (64, 1 << 20):
        assert default_kind(largest, on_gpu=True) == "cuda"


def test_shares_have_one_order() -> None:
    """The order in a dict decides neither which record goes where nor what a state records."""
    wanted = {"threads": 0.15, "cuda": 0.6, "hardware": 0.25}
    for order in (["hardware", "threads", "cuda"], ["cuda", "hardware", "threads"]):
        shares = resolve_shares({name: wanted[name] for name in order}, "cuda", on_gpu=True)
        assert list(shares.items()) == list(wanted.items())
        assert identify(shares) == '{"cuda":0.6,"hardware":0.25,"threads":0.15}'


@pytest.mark.parametrize(
    ("opener", "fault"),
    [
        ("gpu", ""),
        ("cuda", ""),
        (None, ""),
        ({}, ", where the shares sum to 0"),
        ({"threads": 0.5}, ", where the shares sum to 0.5"),
        ({"threads": 0.5, "graph": 0.500002}, ", where the shares sum to 1.000002"),
        ({"threads": 1.5, "graph": -0.5}, ", where the share of 'graph' is -0.5"),
        ({"threads": 1.0, "graph": 0.0}, ", where the share of 'graph' is 0.0"),
        ({"threads": float("nan"), "graph": 0.5}, ", where the share of 'threads' is nan"),
        ({"threads": "0.5", "graph": 0.5}, ", where the share of 'threads' is '0.5'"),
        ({"threads": True}, ", where the share of 'threads' is True"),
        ({"auto": 1.0}, ", where 'auto' is unknown"),
        ({"threads": 0.5, "hardware": 0.5}, ", where 'hardware' is unknown"),
        (["threads"], ""),
    ],
    ids=str,
)
def test_anything_else_is_refused(opener: Any, fault: str) -> None:
    message = (
        rf"^opener is [^;]*{re.escape(fault)}; on"
        r' the CPU it must be one of "auto", "threads", "graph", or a dict of '
        r'shares of all but "auto", which are positive and sum to 1$'
    )
    with pytest.raises(ConfigError, match=message):
        resolve_shares(opener, "threads", on_gpu=False)


def test_each_device_has_kinds_of_its_own() -> None:
    four = {"threads": 0.1, "cuda": 0.2, "cuda_windows": 0.3, "hardware": 0.4}
    resolve_shares(four, "cuda", on_gpu=True)
    with pytest.raises(
        ConfigError, match=r'on a GPU .* "threads", "cuda", "cuda_windows", "hardware", or a dict'
    ):
        resolve_shares("graph", "cuda", on_gpu=True)
