"""The results of a comparison: typed records, and their JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from benchmarks.machine import Machine
from gpufeed.tools.median import Median, median_of

__all__ = ["FIGURES", "OURS", "About", "Absent", "Cache", "Comparison", "Entry", "Result", "Round"]

OURS = "gpufeed"

Cache = Literal["warm", "cold"]
"""Whether the files are in the page cache."""


@dataclass(frozen=True)
class Round:
    """One contender's figures in one round.

    Attributes:
        images_per_second: while a consumer takes batches as fast as they come.
        user_ms: CPU time in user space for an image, of its whole process tree, milliseconds.
        system_ms: likewise in the kernel.
        memory_mib: what the tree has for itself alone, at the round's end, MiB.
        peak_mib: the most it has held since it began, start and checks included, MiB; pages that
            its processes share are counted once.
        waited: share of its time that a consumer waits which works on each batch; None where there
            was none.
        gpu_share: share of the time that the GPU was at work; None without NVML, as what follows.
        jpeg_share: likewise its JPEG engines.
        gpu_mib: the most GPU memory it held, MiB.
    """

    images_per_second: float
    user_ms: float
    system_ms: float
    memory_mib: float
    peak_mib: float | None = None
    waited: float | None = None
    gpu_share: float | None = None
    jpeg_share: float | None = None
    gpu_mib: float | None = None

    @property
    def cpu_ms(self) -> float:
        """CPU time for an image, milliseconds."""
        return self.user_ms + self.system_ms


FIGURES = (
    "images_per_second",
    "cpu_ms",
    "memory_mib",
    "peak_mib",
    "waited",
    "gpu_share",
    "jpeg_share",
    "gpu_mib",
)
"""The figures of each contender, as attributes of a `Round`."""


@dataclass
class Entry:
    """What one contender answered.

    Attributes:
        name: the contender's.
        equal: whether it does the whole work.
        does: what it does, where it does not.
        first_batch_s: seconds from making the loader to its first batch, imports included.
        mean: of all pixels of two epochs.
        std: the batches' deviation, on average.
        warm: a round for each turn with the files in the page cache.
        cold: likewise, with the files dropped from it.
        remarks: what a check found out of order, or how it failed.
    """

    name: str
    equal: bool
    does: str
    first_batch_s: float = 0.0
    mean: float = 0.0
    std: float = 0.0
    warm: list[Round] = field(default_factory=list)
    cold: list[Round] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def rounds(self, cache: Cache) -> list[Round]:
        """The rounds with this page cache."""
        return self.warm if cache == "warm" else self.cold

    def figure(self, name: str, cache: Cache = "warm") -> Median | None:
        """Median of one of `FIGURES`; None where it was not taken."""
        return _median([getattr(each, name) for each in self.rounds(cache)])

    def over(self, other: Entry, cache: Cache = "warm") -> Median | None:
        """Median of its images/s over another's, each pair taken of the same round."""
        pairs = zip(self.rounds(cache), other.rounds(cache), strict=True)
        return _median([mine.images_per_second / its.images_per_second for mine, its in pairs])


def _median(values: Sequence[float | None]) -> Median | None:
    known = [value for value in values if value is not None]
    return median_of(known) if known and len(known) == len(values) else None


@dataclass(frozen=True)
class Absent:
    """A contender that cannot run here."""

    name: str
    why: str


@dataclass(frozen=True)
class About:
    """What was compared.

    Attributes:
        name: of the data.
        images: how many.
        batch_size: images in a batch.
        size: side of the output, pixels.
        device: "cpu" or "cuda".
        cores: how many a contender may use.
        batches: timed in each round.
        preset: "train" or "evaluate".
        consumer: images/s that one takes which works on each batch; None where there was none.
    """

    name: str
    pictures: int
    batch_size: int
    size: int
    device: str
    cores: int
    batches: int
    preset: str = "train"
    consumer: float | None = None

    def __str__(self) -> str:
        return f"{self.name}, {self.preset}, {self.batch_size} a batch, on {self.device}"


@dataclass
class Result:
    """One comparison: a set of images, fed in one way.

    Attributes:
        work: what was compared.
        entries: of those that ran.
        absent: of those that could not.
    """

    work: About
    entries: list[Entry]
    absent: list[Absent]

    @property
    def ours(self) -> Entry | None:
        """The entry of gpufeed; None where it did not run."""
        return next((entry for entry in self.entries if entry.name == OURS), None)

    @property
    def rounds(self) -> int:
        """How many there were."""
        return max((len(entry.warm) for entry in self.entries), default=0)

    @property
    def caches(self) -> list[Cache]:
        """Those that there are rounds with."""
        kinds: tuple[Cache, ...] = ("warm", "cold")
        return [kind for kind in kinds if any(entry.rounds(kind) for entry in self.entries)]


@dataclass
class Comparison:
    """All that one run found.

    Attributes:
        machine: what it ran on.
        results: one for each set of images, and way of feeding it.
    """

    machine: Machine
    results: list[Result]

    def save(self, path: Path) -> None:
        """Write it as JSON, the rounds and the figures that they come to."""
        path.write_text(json.dumps(self.described(), indent=1) + "\n")

    def described(self) -> dict[str, Any]:
        """Return what the JSON holds."""
        found = asdict(self)
        for result, described in zip(self.results, found["results"], strict=True):
            for entry, written in zip(result.entries, described["entries"], strict=True):
                written["figures"] = {
                    cache: _figures(entry, result.ours, cache)
                    for cache in result.caches
                    if entry.rounds(cache)
                }
        return found

    @staticmethod
    def load(path: Path) -> Comparison:
        """Read what `save` wrote; its figures are worked out from the rounds again."""
        found = json.loads(path.read_text())
        return Comparison(
            Machine(**found["machine"]),
            [
                Result(
                    About(**result["work"]),
                    [_entry(entry) for entry in result["entries"]],
                    [Absent(**absent) for absent in result["absent"]],
                )
                for result in found["results"]
            ],
        )


def _figures(entry: Entry, ours: Entry | None, cache: Cache) -> dict[str, Any]:
    medians = {name: entry.figure(name, cache) for name in FIGURES}
    medians["over_gpufeed"] = entry.over(ours, cache) if ours else None
    return {name: asdict(median) if median else None for name, median in medians.items()}


def _entry(found: dict[str, Any]) -> Entry:
    known = {each.name for each in fields(Entry)}
    values = {name: value for name, value in found.items() if name in known}
    for cache in ("warm", "cold"):
        values[cache] = [Round(**each) for each in values[cache]]
    return Entry(**values)
