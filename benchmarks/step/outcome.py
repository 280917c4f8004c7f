"""The results of the training benchmark, as saved, and the columns of its table and plot."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.compare.run import Absent

__all__ = ["Fed", "Middle", "Outcome", "Round", "Row", "Setting"]


@dataclass(frozen=True)
class Setting:
    """What every model does.

    Attributes:
        model: its name.
        precision: of the model's arithmetic.
        variant: of the photos, brought to NABirds' form.
        images: how many there are.
        batch_size: images in a batch.
        size: side of an image as it is fed, pixels.
        steps: timed in each round.
        rounds: timed ones.
        device: "cpu" or "cuda".
        cores: how many there are.
    """

    model: str
    precision: str
    variant: str
    pictures: int
    batch_size: int
    size: int
    steps: int
    rounds: int
    device: str
    cores: int


@dataclass(frozen=True)
class Round:
    """One turn of one model.

    Attributes:
        images: trained on.
        cpu_ms: user and system time an image, of the model and all processes that feed it.
        losses: of each step.
        step_s: seconds of each step, from the end of the last one.
        waited_s: seconds of it until its batch was there.
        utilisation: of the GPU: seconds since the beginning, and share; None where not known.
    """

    images: int
    cpu_ms: float
    losses: list[float]
    step_s: list[float]
    waited_s: list[float]
    utilisation: list[tuple[float, float]] | None

    @property
    def rate(self) -> float:
        """Images/s."""
        return self.images / sum(self.step_s)

    @property
    def waiting(self) -> float:
        """Share of the time, 0 to 1, in which the model waited for its batch."""
        return sum(self.waited_s) / sum(self.step_s)

    @property
    def busy(self) -> float | None:
        """The GPU's mean utilisation, 0 to 1."""
        return (
            statistics.fmean(share for _, share in self.utilisation) if self.utilisation else None
        )


@dataclass(frozen=True)
class Fed:
    """A model fed by one feed; `equal` and `does` are the feed's own."""

    name: str
    equal: bool
    does: str
    rounds: list[Round]

    @property
    def typical(self) -> Round:
        """The round of the median rate; of two in the middle the slower."""
        return sorted(self.rounds, key=lambda each: each.rate)[(len(self.rounds) - 1) // 2]


@dataclass(frozen=True)
class Middle:
    """Of a figure over the rounds."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> Middle:
        """Find them."""
        return Middle(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Row:
    """What is shown of a feed; over the ceiling means round by round, in the same rounds."""

    name: str
    does: str
    images_per_second: Middle
    over_ceiling: Middle
    waiting_share: Middle
    cpu_ms: Middle
    utilisation: Middle | None
    loss: float


@dataclass(frozen=True)
class Outcome:
    """A run; `feeds` begins with the ceiling."""

    machine: dict[str, Any]
    setting: Setting
    feeds: list[Fed]
    absent: list[Absent]

    def rows(self) -> list[Row]:
        """One for each feed, in order."""
        ceiling = [each.rate for each in self.feeds[0].rounds]

        def middle(fed: Fed, figure: Callable[[Round], float]) -> Middle:
            return Middle.of([figure(each) for each in fed.rounds])

        found = []
        for fed in self.feeds:
            busy = [each.busy for each in fed.rounds if each.busy is not None]
            ratios = [each.rate / top for each, top in zip(fed.rounds, ceiling, strict=True)]
            found.append(
                Row(
                    name=fed.name,
                    does=fed.does,
                    images_per_second=middle(fed, lambda each: each.rate),
                    over_ceiling=Middle.of(ratios),
                    waiting_share=middle(fed, lambda each: each.waiting),
                    cpu_ms=middle(fed, lambda each: each.cpu_ms),
                    utilisation=Middle.of(busy) if busy else None,
                    loss=fed.rounds[-1].losses[-1],
                )
            )
        return found

    def save(self, path: Path) -> None:
        """Write it as JSON, the rows with it."""
        rows = [asdict(row) for row in self.rows()]
        path.write_text(json.dumps({**asdict(self), "rows": rows}, indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Outcome:
        """Read what `save` wrote."""
        found = json.loads(path.read_text())
        feeds = [
            Fed(**{**fed, "rounds": [Round(**each) for each in fed["rounds"]]})
            for fed in found["feeds"]
        ]
        absent = [Absent(**each) for each in found["absent"]]
        return Outcome(found["machine"], Setting(**found["setting"]), feeds, absent)
