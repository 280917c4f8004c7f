"""The result of `doctor`: figures, a verdict and advice, as text and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from gpufeed.tools.doctor.model import Bound, Setting
from gpufeed.tools.doctor.storage import Storage
from gpufeed.tools.median import Median

__all__ = ["Advice", "Diagnosis", "Section", "Verified", "interval", "largest_part", "worth"]

_WORTH = 1.1
"""The least gain for which a change is advised."""
_MOST = 0.5
"""Share of the CPU time above which a part stands out."""
_PER_FILE = ("plan", "read", "hand-over")

_NAMES = {
    "storage": "the storage",
    "planning": "planning",
    "cpu": "the CPU",
    "threads": "the number of threads",
    "hand-over": "handing over",
    "gpu": "the GPU's part of the loader",
    "consumer": "the training step",
}


@dataclass(frozen=True)
class Advice:
    """A change, what to do as a sentence, and the factor by which it raises the ceiling."""

    name: str
    advice: str
    gain: Median


@dataclass(frozen=True)
class Verified:
    """A piece of advice that was applied to a real loader: the factors by which images/s rose.

    Predicted for the cores that were free, and measured; `cpu` is that by which the CPU time of an
    image fell, which other work on the machine disturbs less.
    """

    name: str
    predicted: Median
    measured: Median
    cpu: Median


@dataclass(frozen=True)
class Section:
    """A part of the report: paragraphs, and figures by name, of which `worst` matters most."""

    title: str
    notes: list[str] = field(default_factory=list)
    rows: Mapping[str, Median] = field(default_factory=dict)
    form: str = ",.0f"
    worst: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """What bounds a run, what its ceiling is, and what to change; `str` is the whole report.

    Attributes:
        images: the number of images of the manifest.
        tried: the number of images of the sample.
        bad: images of the sample that cannot be read or decoded.
        device: the device it ran on.
        setting: cores, threads, batch size and training step, for batches of the sample.
        bound: the ceilings, and the smallest of them.
        cpu_ms: CPU time of an image by part, in milliseconds.
        storage: how fast images are read.
        advice: changes by gain, but first what undoes the bound itself.
        verified: the first of these that was applied; None if there is none.
        fed: images/s of a real loader of the sample.
        waiting: share of the time that its consumer waited, 0 to 1.
        free: cores that other processes left meanwhile.
    """

    images: int
    tried: int
    bad: int
    device: str
    setting: Setting
    bound: Bound
    cpu_ms: Mapping[str, Median]
    storage: Storage
    advice: list[Advice]
    verified: Verified | None
    fed: Median
    waiting: float
    free: float

    @property
    def culprit(self) -> str:
        """What bounds the run; of the CPU's time, the part that takes most of it."""
        if self.bound.name != "cpu":
            return self.bound.name
        return f"cpu: {largest_part(self.cpu_ms)[0]}"

    @property
    def verdict(self) -> str:
        """What bounds the run, and what its ceiling is."""
        bound, setting = self.bound, self.setting
        rate = interval(bound.rate, ",.0f", "images/s")
        others = [each.median for name, each in bound.ceilings.items() if name != bound.name]
        spare = f"{min(others):,.0f} images/s" if others else "more"
        part, share = largest_part(self.cpu_ms)
        said = {
            "storage": f"The storage bounds the run: it gives {rate}; reading one image alone "
            f"takes {self.storage.latency_ms.median:.1f} ms. The rest could do {spare}.",
            "planning": f"Planning bounds the run: one thread plans {rate}.",
            "threads": f"The number of threads bounds the run: {setting.threads} on "
            f"{setting.cores:g} cores can give at most {rate}. The rest could do {spare}.",
            "hand-over": f"Handing batches over bounds the run, at {rate}.",
            "gpu": f"The GPU's part of the loader bounds the run, at {rate}.",
            "consumer": "The loader is not your problem: the training step takes "
            f"{rate}, and the loader could give {spare}.",
            "cpu": f"The CPU bounds the run: {setting.cores:g} cores can give at most {rate}, and "
            f"{part} takes {100 * share:.0f} % of their time.",
        }[bound.name]
        if bound.name == "cpu" and not self.advice and share < _MOST:
            said = (
                f"Nothing stands out. {setting.cores:g} cores can give at most {rate}; the largest "
                f"part of their time, {part}, takes {100 * share:.0f} %."
            )
        if bound.near:
            near = " and ".join(_NAMES[name] for name in bound.near)
            said += f" The ceiling of {near} is about the same."
        return said

    @property
    def sections(self) -> list[Section]:
        """The report after the verdict."""
        notes = [
            f"{number}. {one.advice} Expected: {interval(one.gain, '.2f')} times."
            for number, one in enumerate(self.advice, 1)
        ]
        found = [
            Section("What to change", notes or ["Nothing that gpufeed can change gains 10 %."])
        ]
        if (made := self.verified) is not None:
            hit = made.measured.low <= made.predicted.high and (
                made.predicted.low <= made.measured.high
            )
            found.append(
                Section(
                    f"Applied to a real loader: {made.name}, gain in times",
                    [] if hit else ["The prediction missed."],
                    {
                        f"predicted for {self.free:.1f} cores": made.predicted,
                        "images/s measured": made.measured,
                        "CPU time measured": made.cpu,
                    },
                    ".2f",
                    "images/s measured",
                )
            )
        ceilings = dict(sorted(self.bound.ceilings.items(), key=lambda item: item[1].median))
        storage, setting = self.storage, self.setting
        rates = {"from the disk" if storage.dropped else "first": storage.first}
        cached = "; the page cache has room for all images" * storage.cached
        measured = [
            f"A real loader gave {interval(self.fed, ',.0f', 'images/s')}; its consumer waited "
            f"{100 * self.waiting:.0f} % of the time. Other processes left {self.free:.1f} of "
            f"{setting.cores:g} cores.",
            f"Measured on {self.tried:,} of {self.images:,} images, {self.device}, "
            f"num_threads={setting.threads}, batches of {setting.batch_size}; in "
            "parentheses is the interval of each median.",
        ]
        if self.bad:
            measured.append(f"{self.bad} images cannot be read or decoded: see `gpufeed check`.")
        return [
            *found,
            Section("Ceilings, images/s", [], ceilings, worst=self.bound.name),
            Section(
                "CPU time of an image, ms",
                [],
                self.cpu_ms,
                ".3f",
                max(self.cpu_ms, key=lambda name: self.cpu_ms[name].median),
            ),
            Section(
                f"Reading ({storage.source}), images/s",
                [f"An image has {storage.mean_bytes / 1000:,.0f} KB{cached}."],
                {**rates, "again": storage.again},
            ),
            Section("How it was measured", measured),
        ]

    def __str__(self) -> str:
        lines = textwrap.wrap(self.verdict, 80)
        for section in self.sections:
            lines += ["", section.title]
            for note in section.notes:
                indent = "  " + "   " * note[:1].isdecimal()
                lines += textwrap.wrap(
                    note, 80, initial_indent="  ", subsequent_indent=indent, break_long_words=False
                )
            lines += [
                f"  {name:<25} {interval(each, section.form)}"
                for name, each in section.rows.items()
            ]
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return all figures, the verdict and the advice as JSON."""
        content = {"verdict": self.verdict, "culprit": self.culprit, **asdict(self)}
        return json.dumps(content, indent=1) + "\n"


def largest_part(cpu_ms: Mapping[str, Median]) -> tuple[str, float]:
    """Return the part with the largest share of the CPU time, and that share.

    What does not depend on the number of pixels counts as one part.
    """
    parts = {name: each.median for name, each in cpu_ms.items() if name not in _PER_FILE}
    parts["work for each file"] = sum(cpu_ms[name].median for name in _PER_FILE if name in cpu_ms)
    name = max(parts, key=lambda each: parts[each])
    return name, parts[name] / max(sum(parts.values()), 1e-12)


def worth(gain: Median) -> bool:
    """Return whether a gain is certain, and large enough to be advised."""
    return gain.median >= _WORTH and gain.low > 1


def interval(median: Median, form: str, unit: str = "") -> str:
    """Return a median with its interval, as text."""
    middle, low, high = (format(each, form) for each in (median.median, median.low, median.high))
    unit = f" {unit}" if unit else ""
    return f"{middle}{unit} ({low} to {high})" if low != high else f"{middle}{unit}"
