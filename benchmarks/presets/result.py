"""The results of the presets benchmark, as saved."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.machine import Machine
from gpufeed.tools.median import Median, median_of

__all__ = ["GPUFEED", "Cost", "Planning", "Result", "median_ratio"]

GPUFEED = "gpufeed"


@dataclass(frozen=True)
class Cost:
    """One contender's rounds of one preset.

    Attributes:
        preset: name of a function of `gpufeed.presets`.
        contender: `GPUFEED`, "DALI by hand" or "torchvision".
        cpu_ms: CPU ms an image, a figure a round.
    """

    preset: str
    contender: str
    cpu_ms: list[float]

    @property
    def median(self) -> Median:
        """Of the rounds."""
        return median_of(self.cpu_ms)


@dataclass(frozen=True)
class Planning:
    """CPU ms for the plan of a batch, a figure a round."""

    preset: str
    records: int
    cpu_ms: list[float]

    @property
    def median(self) -> Median:
        """Of the rounds."""
        return median_of(self.cpu_ms)


@dataclass(frozen=True)
class Result:
    """All of one run.

    Attributes:
        machine: what it ran on.
        images: how many images there were.
        batch_size: of them.
        costs: of all contenders.
        planning: of all presets.
        absent: who could not take part, and why.
    """

    machine: Machine
    images: int
    batch_size: int
    costs: list[Cost]
    planning: list[Planning]
    absent: dict[str, str]

    def cost(self, preset: str, contender: str = GPUFEED) -> Cost | None:
        """One contender's; None where it took no part."""
        found = (
            each for each in self.costs if (each.preset, each.contender) == (preset, contender)
        )
        return next(found, None)

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Result:
        """Read what `save` wrote."""
        found = json.loads(path.read_text())
        found["machine"] = Machine(**found["machine"])
        found["costs"] = [Cost(**each) for each in found["costs"]]
        found["planning"] = [Planning(**each) for each in found["planning"]]
        return Result(**found)


def median_ratio(one: Cost, other: Cost) -> Median:
    """Median of each round's own ratio: a machine that is slow for a while does not show in it."""
    return median_of([a / b for a, b in zip(one.cpu_ms, other.cpu_ms, strict=True)])
