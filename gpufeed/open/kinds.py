"""Openers by name: the decoders that open a loader's images, and the share of each."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Literal

from gpufeed._util.identity import encode
from gpufeed._util.numbers import is_number
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError

__all__ = [
    "THREADS",
    "WHOLE",
    "Kind",
    "OpenerKind",
    "Shares",
    "default_kind",
    "identify",
    "resolve_shares",
]

Kind = Literal["threads", "graph", "cuda", "cuda_windows", "hardware"]
OpenerKind = Literal["auto"] | Kind
Shares = Mapping[Kind, float]
"""The share of each kind, in the order of `_ON_CPU` or `_ON_GPU`; the shares sum to 1."""

THREADS: Kind = "threads"
_ON_CPU: tuple[Kind, ...] = (THREADS, "graph")
_ON_GPU: tuple[Kind, ...] = (THREADS, "cuda", "cuda_windows", "hardware")

WHOLE: frozenset[Kind] = frozenset({"cuda", "hardware"})
"""The kinds that decode whole images, and not only windows.

The hardware engines decode no windows. With smooth chroma, nvImageCodec gives the windows of most
JPEGs to the CPU where nvJPEG is older than 13.3. Version 0.9.0 of it, which DALI 2.4 needs, crashes
on windows on some GPUs (NVIDIA/nvImageCodec 55).
"""

_AUTO_ON_GPU: Kind = "cuda"
"""What "auto" stands for on a GPU, with every build of DALI. **Not yet measured on a GPU.**

Entropy decoding stays on the cores, but the rest of decoding and the resize leave them.
"""

_TINY_PIXELS = 32 * 32
"""Images up to this size take less CPU time where they do not pass through Python one by one."""


def default_kind(largest: int, *, on_gpu: bool, needs_threads: bool = False) -> Kind:
    """Return what "auto" stands for.

    On the CPU, nothing but the sizes decides, so that pixels are the same on every machine.

    Args:
        largest: the most pixels of an image of the manifest.
        on_gpu: whether the graph is on a GPU.
        needs_threads: whether something is to be called that only threads can call.
    """
    if on_gpu:
        return _AUTO_ON_GPU
    if needs_threads or largest > _TINY_PIXELS:
        return THREADS
    return "graph"


def resolve_shares(opener: object, auto: Kind, *, on_gpu: bool) -> Shares:
    """Return the shares that the argument `opener` of a loader stands for.

    Args:
        opener: the argument.
        auto: what "auto" stands for.
        on_gpu: whether the graph is on a GPU.

    Raises:
        ConfigError: it is neither a name nor valid shares.
    """
    kinds = _ON_GPU if on_gpu else _ON_CPU
    if opener == "auto":
        return {auto: 1.0}
    for kind in kinds:
        if opener == kind:
            return {kind: 1.0}
    fault = ""
    if isinstance(opener, Mapping):
        fault = _fault(opener, kinds)
        if not fault:
            return {kind: float(opener[kind]) for kind in kinds if kind in opener}
    names = ", ".join(f'"{kind}"' for kind in ("auto", *kinds))
    where = "a GPU" if on_gpu else "the CPU"
    raise ConfigError(
        f"opener is {short(opener)}{fault}; on {where} it must be one of {names}, or a "
        'dict of shares of all but "auto", which are positive and sum to 1'
    )


def _fault(shares: Mapping[object, object], kinds: Collection[Kind]) -> str:
    """Return what is wrong with shares, as a part of a message; "" if nothing is."""
    total = 0.0
    for kind, share in shares.items():
        if kind not in kinds:
            return f", where {short(kind)} is unknown"
        if not is_number(share) or not share > 0:
            return f", where the share of {short(kind)} is {short(share)}"
        total += share
    exact = math.isclose(total, 1.0, rel_tol=0, abs_tol=1e-6)
    return "" if exact else f", where the shares sum to {total:.7g}"


def identify(shares: Shares) -> str:
    """Return what a state records of an opener: its name, or its shares as JSON."""
    return next(iter(shares)) if len(shares) == 1 else encode(dict(shares))
