"""Openers by name: the decoders that open a loader's images, and the share of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from gpufeed._util.identity import encode
from gpufeed._util.numbers import is_number
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError

__all__ = [
    "THREADS",
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
    if isinstance(opener, Mapping) and set(opener) <= set(kinds):
        shares = {kind: opener[kind] for kind in kinds if kind in opener}
        if all(is_number(share) and share > 0 for share in shares.values()) and math.isclose(
            sum(shares.values()), 1.0, rel_tol=0, abs_tol=1e-6
        ):
            return {kind: float(share) for kind, share in shares.items()}
    names = ", ".join(f'"{kind}"' for kind in ("auto", *kinds))
    raise ConfigError(
        f"opener is {short(opener)}; on {'a GPU' if on_gpu else 'the CPU'} it must be one of "
        f'{names}, or a dict of shares of all but "auto", which are positive and sum to 1'
    )


def identify(shares: Shares) -> str:
    """Return what a state records of an opener: its name, or its shares as JSON."""
    return next(iter(shares)) if len(shares) == 1 else encode(dict(shares))
