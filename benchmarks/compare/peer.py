"""The interface of a contender."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.compare.work import PRESETS, Work
from gpufeed._util.limits import available_threads

__all__ = ["Peer", "with_workers"]


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
    """

    name: str
    open: Callable[[Work], Iterator[tuple[Any, Any]]]
    needs: tuple[str, ...] = ()
    equal: bool = True
    does: str = ""
    on: tuple[str, ...] = ("cpu", "cuda")
    presets: tuple[str, ...] = PRESETS

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
        """Why it cannot feed this device here; "" where it can."""
        if missing := self.missing():
            return f"{missing} is not installed"
        return "" if device in self.on else f"it has no way to {device}"

    def refusal(self, work: Work) -> str:
        """Why it cannot do this work here; "" where it can."""
        can = work.preset in self.presets
        return self.lacks(work.device) or ("" if can else f"it has no way to {work.preset}")


def with_workers(
    name: str, opened: Callable[..., Iterator[tuple[Any, Any]]], *listed: int, **options: Any
) -> list[Peer]:
    """Return a contender for each of some numbers of workers, and for one worker a core.

    Args:
        name: without the workers.
        opened: as a `Peer`'s `open`, which is also given the number, as `workers`.
        listed: the numbers.
        options: further attributes of each.
    """
    return [
        Peer(
            f"{name}, {workers} worker{'s' * (workers != 1)}",
            functools.partial(opened, workers=workers),
            **options,
        )
        for workers in sorted({*listed, available_threads()})
    ]
