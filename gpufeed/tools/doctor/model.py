"""The model: the ceilings that follow from what an image costs; the smallest one bounds a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpufeed.tools.median import Median, median_of

__all__ = ["Bound", "Costs", "Setting", "bound_of", "ceilings", "gain"]


@dataclass(frozen=True)
class Costs:
    """What an image costs in one round, in seconds of CPU time, but wall time where it says so.

    Attributes:
        plan: planning.
        read: reading.
        open: the threads that decode and resize.
        run: the DALI graph.
        hand_over: making arrays of the framework.
        fetch: wall time of reading, with as many requests at a time as a loader makes.
        gpu: wall time of the DALI graph on a GPU; 0 on the CPU.
    """

    plan: float
    read: float
    open: float
    run: float
    hand_over: float
    fetch: float = 0.0
    gpu: float = 0.0

    @property
    def cpu(self) -> float:
        """The CPU time of an image."""
        return self.plan + self.read + self.open + self.run + self.hand_over


@dataclass(frozen=True)
class Setting:
    """How a run is set up: `step` is the seconds of a training step, None if unknown."""

    cores: float
    threads: int
    batch_size: int
    step: float | None = None


@dataclass(frozen=True)
class Bound:
    """What bounds a run.

    Attributes:
        name: the smallest ceiling.
        near: other ceilings whose intervals overlap with its own.
        ceilings: images per second that each part of the machine allows.
    """

    name: str
    near: tuple[str, ...]
    ceilings: Mapping[str, Median]

    @property
    def rate(self) -> Median:
        """The ceiling of the run, in images per second."""
        return self.ceilings[self.name]


def ceilings(costs: Costs, setting: Setting) -> dict[str, float]:
    """Return the images per second that each part allows, as if all others took no time."""
    found = {
        # One thread plans batches and reads them.
        "storage": costs.plan + costs.fetch,
        "cpu": costs.cpu / setting.cores,
        # Threads that open images and those of DALI are as many each, and work at the same time.
        "threads": max(costs.open, costs.run) / setting.threads,
        "hand-over": costs.hand_over,
        "gpu": costs.gpu,
    }
    if setting.step is not None:
        found["consumer"] = setting.step / setting.batch_size + costs.hand_over
    return {name: 1 / seconds for name, seconds in found.items() if seconds > 0}


def bound_of(rounds: Sequence[Costs], setting: Setting) -> Bound:
    """Return what bounds a run of these costs."""
    each_round = [ceilings(costs, setting) for costs in rounds]
    found = {name: median_of([each[name] for each in each_round]) for name in each_round[0]}
    if sum(costs.plan for costs in rounds) > sum(costs.fetch for costs in rounds):
        found["planning"] = found.pop("storage")
    name = min(found, key=lambda each: found[each].median)
    near = [each for each in found if each != name and found[each].low <= found[name].high]
    return Bound(name, tuple(near), found)


def gain(
    before: Sequence[Costs], setting: Setting, after: Sequence[Costs], then: Setting
) -> Median:
    """Return by what factor a change raises the ceiling of a run, from pairs of rounds."""
    return median_of(
        [
            min(ceilings(new, then).values()) / min(ceilings(old, setting).values())
            for old, new in zip(before, after, strict=True)
        ]
    )
