"""What a contender is."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.compare.work import Work

__all__ = ["Peer"]


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
    """

    name: str
    open: Callable[[Work], Iterator[tuple[Any, Any]]]
    needs: tuple[str, ...] = ()
    equal: bool = True
    does: str = ""
    on: tuple[str, ...] = ("cpu", "cuda")

    def missing(self) -> str:
        """The first module that is not installed; "" where all are."""
        for module in self.needs:
            try:
                if importlib.util.find_spec(module) is None:
                    return module
            except ImportError:
                return module
        return ""

    def lacks(self, device: str) -> str:
        """Why it can not feed this device here; "" where it can."""
        if missing := self.missing():
            return f"{missing} is not installed"
        return "" if device in self.on else f"it has no way to {device}"
