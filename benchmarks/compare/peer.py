"""What a contender is."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.compare.work import PRESETS, Work

__all__ = ["A_WORKER_A_CORE", "Peer", "unless_listed"]

A_WORKER_A_CORE = "a worker a core"
"""How a contender is called that takes all cores."""


def unless_listed(*workers: int) -> Callable[[Work], str]:
    """Why a contender with a worker a core need not run: one with as many workers is listed."""

    def why(work: Work) -> str:
        if work.cores not in workers:
            return ""
        return f"on {work.cores} core{'s' * (work.cores != 1)} it is one that is listed"

    return why


@dataclass(frozen=True)
class Peer:
    """A loader, set up as its own documentation or its users would.

    Attributes:
        name: as the report has it.
        open: from the work to an endless iterator over (image, label).
        needs: modules that must be installed.
        equal: whether it does the whole work, its resize antialiased; else `does` says what.
        does: what it does, where that is not the whole work.
        on: devices it can deliver to.
        presets: what it can do, of `work.PRESETS`.
        unless: from the work to why it can not, or need not, be done; "" where it can.
    """

    name: str
    open: Callable[[Work], Iterator[tuple[Any, Any]]]
    needs: tuple[str, ...] = ()
    equal: bool = True
    does: str = ""
    on: tuple[str, ...] = ("cpu", "cuda")
    presets: tuple[str, ...] = PRESETS
    unless: Callable[[Work], str] = lambda _: ""

    def refusal(self, work: Work) -> str:
        """Why it can not do this work here; "" where it can."""
        if missing := self.missing():
            return f"{missing} is not installed"
        if work.device not in self.on:
            return f"it has no way to {work.device}"
        if work.preset not in self.presets:
            return f"it has no way to {work.preset}"
        return self.unless(work)

    def missing(self) -> str:
        """The first module that is not installed; "" where all are."""
        for module in self.needs:
            try:
                if importlib.util.find_spec(module) is None:
                    return module
            except ImportError:
                return module
        return ""
