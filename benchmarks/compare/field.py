"""The list of contenders, and which of them cannot run here."""

from __future__ import annotations

import importlib
import pkgutil

from benchmarks.compare import peers
from benchmarks.compare.peer import Peer

__all__ = ["all_peers", "find_peer"]

_FIRST, _LAST = ("ours", "dali"), ("limits", "limits_gpu")


def all_peers() -> list[Peer]:
    """Every contender: gpufeed, DALI, then the others, the limits last."""
    names = sorted(module.name for module in pkgutil.iter_modules(peers.__path__))
    rest = [name for name in names if name not in (*_FIRST, *_LAST)]
    listed = []
    for name in (*_FIRST, *rest, *_LAST):
        module = importlib.import_module(f"{peers.__name__}.{name}")
        listed += module.PEERS
    return listed


def find_peer(name: str) -> Peer:
    """Return the contender of this name."""
    return next(peer for peer in all_peers() if peer.name == name)
