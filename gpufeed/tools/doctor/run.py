"""The public function `doctor`: measure a sample, find the bound, try changes, verify one."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpufeed._util.limits import available_threads
from gpufeed._util.progress import progress as show_progress
from gpufeed.errors import ConfigError
from gpufeed.presets import train
from gpufeed.records import Manifest
from gpufeed.records.subset import Subset, as_manifest
from gpufeed.tools.doctor.changes import Candidate, candidates, tier
from gpufeed.tools.doctor.diagnosis import Advice, Diagnosis, Verified, largest_part, worth
from gpufeed.tools.doctor.live import feed_in_turns
from gpufeed.tools.doctor.model import Costs, Setting, bound_of, gain
from gpufeed.tools.doctor.probe import Probe
from gpufeed.tools.doctor.sample import Sample, draw_sample, held
from gpufeed.tools.median import Median, median_of

__all__ = ["doctor"]

_MEASURING, _FEWEST = 15.0, 3
"""Seconds after which no further round begins, and the rounds that are never cut."""

Step = Callable[[Any], object]


def doctor(
    manifest: Manifest | Subset,
    *,
    step: Step | float | None = None,
    rounds: int = 5,
    seconds: float = 1.0,
    progress: bool | None = None,
    **options: Any,
) -> Diagnosis:
    """Say what bounds a run on these data and this machine, and what to change.

        print(gpufeed.doctor(manifest, transforms=gpufeed.presets.train(), batch_size=64))

    A sample of images is read, and taken through each part of a loader alone. CPU time is measured
    rather than wall time, so that other work on the machine disturbs little. From the costs follow
    the ceilings, and the smallest bounds the run. Each change that may help is measured on the same
    sample, and the first of the advice is applied to a real loader. docs/how-to/doctor.md explains
    the report.

    Args:
        manifest: the images.
        step: the training step, called with each batch; or its time in seconds; None if unknown.
        rounds: rounds of each measurement.
        seconds: time of each round of feeding a real loader.
        progress: whether to show a progress bar; None shows it on a terminal only.
        options: those of the `Loader`, except `sampler` and `shard`.

    Raises:
        ConfigError: an argument is out of range, or an option is not as `Loader` takes it.
        ManifestError: no image of the sample can be decoded.
    """
    options = {"transforms": train(), "batch_size": 64, **options}
    for name in {"sampler", "shard"} & options.keys():
        raise ConfigError(f"{name} is set, but doctor feeds a sample in an order of its own")
    if not isinstance(options["batch_size"], int) or options["batch_size"] < 1:
        raise ConfigError("batch_size must be an integer above 0; diagnose each size by itself")
    for name, value in (("rounds", rounds), ("seconds", seconds), ("step", step)):
        if not (value is None or callable(value) or value > 0):
            raise ConfigError(f"{name} is {value}; it must be above 0")
    with (
        tempfile.TemporaryDirectory(prefix="gpufeed-doctor-") as folder,
        show_progress("measuring", 3, show=progress) as advance,
    ):
        whole = as_manifest(manifest)
        sample = draw_sample(whole, options)
        if not callable(step):
            step = step and step / sample.scale
        advance(1)
        measured = _measure(sample, whole, step, rounds, Path(folder))
        advance(1)
        changes = [*measured.tried, *_further(measured, sample, len(whole), Path(folder))]
        found = _diagnose(measured, sample, changes, len(whole), step, seconds)
        advance(1)
        return found


@dataclass(frozen=True)
class _Change:
    """A change, the costs with it round by round, and the setting with it."""

    candidate: Candidate
    costs: Sequence[Costs]
    setting: Setting

    def gain(self, before: Sequence[Costs], setting: Setting) -> Median:
        return gain(before, setting, self.costs, self.setting)


@dataclass(frozen=True)
class _Measured:
    """What a loader of the sample costs, round by round: as it is, and with each change."""

    device: str
    setting: Setting
    costs: list[Costs]
    decode: list[float]
    tried: list[_Change]

    @property
    def cpu_ms(self) -> dict[str, Median]:
        """The CPU milliseconds of an image by part."""
        parts = {
            "plan": [costs.plan for costs in self.costs],
            "read": [costs.read for costs in self.costs],
            "decode": self.decode,
            "resize": [],
        }
        rest = [costs.open + costs.run for costs in self.costs] - np.array(self.decode)
        for each in self.tried:
            if name := each.candidate.part:
                pairs = zip(self.costs, each.costs, strict=True)
                parts[name] = [max(before.cpu - after.cpu, 0.0) for before, after in pairs]
                rest -= parts[name]
        parts["resize"] = rest.clip(0).tolist()
        parts["hand-over"] = [costs.hand_over for costs in self.costs]
        return {
            name: median_of([1000 * each for each in seconds]) for name, seconds in parts.items()
        }


def _measure(
    sample: Sample, whole: Manifest, step: Step | float | None, rounds: int, folder: Path
) -> _Measured:
    """Measure the loader and each change that is possible, in turns."""
    options, cores = sample.alone, available_threads()
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(Probe(sample.held, **options))
        tried, probes = [], [own]
        for each in candidates(own.loader, sample, whole, folder / "prepared"):
            manifest = sample.held
            if (made := each.prepared) is not None:
                manifest = held(made, made.source.read(np.arange(len(made))))
            with contextlib.suppress(ConfigError):  # such as a batch larger than a small sample
                probes.append(stack.enter_context(Probe(manifest, **{**options, **each.options})))
                tried.append(each)
        for probe in probes:
            probe.warm()
        found: list[list[Costs]] = [[] for _ in probes]
        deadline = time.monotonic() + _MEASURING
        for number in range(rounds):
            if number >= _FEWEST and time.monotonic() > deadline:
                break
            for probe, costs in zip(probes, found, strict=True):
                read, fetch = sample.storage.cpu_ms / 1000, sample.storage.fetch
                if probe.cached:  # decoded images, which are not read again
                    read, fetch = 0.0, 0.0
                costs.append(replace(probe.round(number), read=read, fetch=fetch))
        setting = Setting(
            cores,
            options.get("num_threads") or cores + 1,
            options["batch_size"],
            _time_step(step, own.loader.batch(0), rounds) if callable(step) else step,
        )
        return _Measured(
            own.loader.device,
            setting,
            found[0],
            [own.decode(number) for number in range(len(found[0]))],
            [_Change(each, costs, setting) for each, costs in zip(tried, found[1:], strict=True)],
        )


def _time_step(step: Step, batch: object, rounds: int) -> float:
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        step(batch)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def _further(measured: _Measured, sample: Sample, count: int, folder: Path) -> list[_Change]:
    """Return the changes that need no probe: more threads, and a tier."""
    found, setting = [], measured.setting
    default = available_threads() + 1
    if setting.threads < default:
        advice = f"Use num_threads={default}, the default, instead of {setting.threads}."
        candidate = Candidate("threads", advice, {"num_threads": default})
        found.append(_Change(candidate, measured.costs, replace(setting, threads=default)))
    waits = bound_of(measured.costs, setting).name == "storage" and not sample.options.get("cache")
    if waits and (made := tier(sample, count, folder)) is not None:
        costs = [replace(each, fetch=made[1]) for each in measured.costs]
        found.append(_Change(made[0], costs, setting))
    return found


def _diagnose(
    measured: _Measured,
    sample: Sample,
    changes: Sequence[_Change],
    count: int,
    step: Step | float | None,
    seconds: float,
) -> Diagnosis:
    """Choose the advice, and apply the first of it to a real loader."""
    costs, setting, cpu_ms = measured.costs, measured.setting, measured.cpu_ms
    bound = bound_of(costs, setting)
    # What undoes the bound itself comes first, and then what gains most.
    own = {"storage": "tier", "cpu": largest_part(cpu_ms)[0]}.get(bound.name, bound.name)
    gains = [(each, each.gain(costs, setting)) for each in changes]
    gains = sorted(
        (pair for pair in gains if worth(pair[1])),
        key=lambda pair: (pair[0].candidate.name != own, -pair[1].median),
    )
    first = gains[0][0] if gains else None
    call = step if callable(step) else lambda _: time.sleep(setting.step or 0)
    candidate = first.candidate if first is not None else None
    fed, after, free = feed_in_turns(sample, candidate, call, len(costs), seconds)
    verified = None
    if first is not None:
        turns = [*zip(fed, after, strict=True)]
        predicted = replace(first, setting=replace(first.setting, cores=free))
        verified = Verified(
            first.candidate.name,
            predicted.gain(costs, replace(setting, cores=free)),
            median_of([b.rate / a.rate for a, b in turns]),
            median_of([a.cpu_ms / b.cpu_ms for a, b in turns]),
        )
    return Diagnosis(
        images=count,
        tried=sample.tried,
        bad=sample.bad,
        device=measured.device,
        setting=setting,
        bound=bound,
        cpu_ms=cpu_ms,
        storage=sample.storage,
        advice=[Advice(each.candidate.name, each.candidate.advice, g) for each, g in gains],
        verified=verified,
        fed=median_of([each.rate for each in fed]),
        waiting=statistics.median(each.waited for each in fed),
        free=free,
    )
