"""The result of `doctor`: figures, a verdict and advice, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from gpufeed.tools.doctor.model import Bound, Setting
from gpufeed.tools.doctor.probe import Decoding
from gpufeed.tools.doctor.storage import Storage
from gpufeed.tools.median import Median

__all__ = ["Advice", "Diagnosis", "Taken", "Verified", "interval", "largest_part", "worth"]

_WORTH = 1.1
"""The least gain for which a change is advised."""
_MOST = 0.5
"""Share of the CPU time above which a part stands out."""
_PER_FILE = ("plan", "read", "header", "hand-over")
_FILES = "work for each file"

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
    """A change, and the factor by which it raises the ceiling.

    Attributes:
        name: of the change.
        advice: what to do, as a sentence.
        gain: the factor that the model predicts, 1 for none.
    """

    name: str
    advice: str
    gain: Median


@dataclass(frozen=True)
class Verified:
    """A piece of advice that was applied to a real loader of the sample.

    Attributes:
        name: of the change.
        cores: cores that were free then, other processes taking the rest.
        predicted: the factor that the model predicts for these.
        measured: the factor by which images/s rose, round by round.
        cpu: the factor by which the CPU time of an image fell, which other work on the machine
            disturbs less.
    """

    name: str
    cores: float
    predicted: Median
    measured: Median
    cpu: Median


@dataclass(frozen=True)
class Taken:
    """What feeding takes from the machine, and so from the training step.

    Attributes:
        cores: CPU cores that are busy.
        memory_gbs: estimate of the bytes that are written and read, in GB/s.
        memory_limit_gbs: what a copy by one thread reaches on this machine.
        step_alone_ms: the training step on a batch that is there; None without a step to call.
        step_fed_ms: the same while the loader works.
    """

    cores: float
    memory_gbs: float
    memory_limit_gbs: float
    step_alone_ms: float | None
    step_fed_ms: float | None


@dataclass(frozen=True)
class Diagnosis:
    """What bounds a run, what its ceiling is, and what to change; `str` is the whole report.

    Attributes:
        data: the number of images of the manifest, and that of the sample.
        device: the device it ran on.
        setting: cores, threads, batch size and training step.
        storage: how fast images are read.
        decoding: what images of each format cost on one thread.
        cpu_ms: CPU time of an image by part, in milliseconds.
        bound: the ceilings, and the smallest of them.
        fed: images/s of a real loader of the sample.
        waiting: share of the time that its consumer waited, 0 to 1.
        taken: what feeding takes from the machine.
        others: cores that other processes kept busy meanwhile.
        advice: changes by gain, the largest first.
        verified: the first of these that was applied; None if there is none.
        bad: images of the sample that cannot be read or decoded.
    """

    data: tuple[int, int]
    device: str
    setting: Setting
    storage: Storage
    decoding: list[Decoding]
    cpu_ms: Mapping[str, Median]
    bound: Bound
    fed: Median
    waiting: float
    taken: Taken
    others: float
    advice: list[Advice]
    verified: Verified | None
    bad: int

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
            "storage": f"The storage bounds the run: it gives {rate}, of which each image alone "
            f"takes {self.storage.latency_ms.median:.1f} ms. The rest could do {spare}.",
            "planning": f"Planning bounds the run: one thread plans {rate}.",
            "threads": f"The number of threads bounds the run: {setting.threads} on "
            f"{setting.cores:g} cores make {rate}. The rest could do {spare}.",
            "hand-over": f"Handing batches over bounds the run, at {rate}.",
            "gpu": f"The GPU's part of the loader bounds the run, at {rate}.",
            "consumer": "The loader is not your problem: the training step takes "
            f"{rate}, and the loader could give {spare}.",
            "cpu": f"The CPU bounds the run: {setting.cores:g} cores make at most {rate}, and "
            f"{part} takes {100 * share:.0f} % of their time.",
        }[bound.name]
        if bound.name == "cpu" and not self.advice and share < _MOST:
            said = (
                f"Nothing stands out. {setting.cores:g} cores make at most {rate}; the largest "
                f"part of their time, {part}, takes {100 * share:.0f} %."
            )
        if bound.near:
            near = " and ".join(_NAMES[name] for name in bound.near)
            said += f" The ceiling of {near} is about the same."
        return said

    def __str__(self) -> str:
        storage, setting = self.storage, self.setting
        lines = [self.verdict, ""]
        lines.append(
            f"Measured: {interval(self.fed, ',.0f', 'images/s')} from a real loader of the sample, "
            f"whose consumer waited {100 * self.waiting:.0f} % of the time."
        )
        if self.others > 0.25:
            lines.append(
                f"Other processes kept {self.others:.1f} cores busy meanwhile; rates are less than "
                "this machine reaches alone."
            )
        lines += ["", "Ceilings, images/s"]
        for name, each in sorted(self.bound.ceilings.items(), key=lambda item: item[1].median):
            lines.append(f"  {name:<12}{interval(each, ',.0f')}")
        lines += ["", "CPU time of an image, ms"]
        lines += [f"  {name:<24}{interval(each, '.3f')}" for name, each in self.cpu_ms.items()]
        lines += ["", f"Storage ({storage.source}), images/s"]
        for name, rate in (
            ("found", storage.found),
            ("cold", storage.cold),
            ("warm", storage.warm),
        ):
            if rate is not None:
                mb = rate.median * storage.mean_bytes / 1e6
                lines.append(f"  {name:<12}{interval(rate, ',.0f')}, {mb:,.0f} MB/s")
        lines.append(
            f"  one alone   {interval(storage.latency_ms, '.2f', 'ms')}; an image has "
            f"{storage.mean_bytes / 1000:,.0f} KB, and {100 * storage.small:.0f} % have less than "
            f"64 KiB; {'all' if storage.fits else 'not all'} fit into the page cache"
        )
        lines += ["", "Decoding whole images on one thread"]
        lines += [
            f"  {kind.format:<12}{kind.decode_ms:.2f} ms, header {1000 * kind.header_ms:.0f} us, "
            f"{kind.megapixels:.2f} megapixels ({kind.images} images)"
            for kind in self.decoding
        ]
        if self.bad:
            lines.append(f"  {self.bad} cannot be read or decoded: see `gpufeed check`")
        taken = self.taken
        lines += [
            "",
            f"Feeding takes {taken.cores:.1f} of {setting.cores:g} cores and about "
            f"{taken.memory_gbs:.1f} GB/s of memory; one thread "
            f"copies {taken.memory_limit_gbs:.1f}.",
        ]
        if taken.step_alone_ms is not None and taken.step_fed_ms is not None:
            lines.append(
                f"The training step takes {taken.step_alone_ms:.1f} ms alone, and "
                f"{taken.step_fed_ms:.1f} ms while the loader works."
            )
        lines += ["", "What to change"]
        lines += [
            f"  {number}. {one.advice} Expected: {interval(one.gain, '.2f')} times."
            for number, one in enumerate(self.advice, 1)
        ]
        if not self.advice:
            lines.append("  Nothing that gpufeed can change would gain 10 %.")
        if self.verified is not None:
            found = self.verified
            hit = (
                found.measured.low <= found.predicted.high
                and found.predicted.low <= found.measured.high
            )
            lines += [
                "",
                f"Applied to a real loader: {found.name}. With the {found.cores:.1f} cores that "
                f"were free, {interval(found.predicted, '.2f')} times the images/s were predicted, "
                f"and {interval(found.measured, '.2f')} times measured; an image took "
                f"{interval(found.cpu, '.2f')} times less CPU time."
                + " The prediction missed."
                * (not hit),
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
    parts[_FILES] = sum(cpu_ms[name].median for name in _PER_FILE if name in cpu_ms)
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
