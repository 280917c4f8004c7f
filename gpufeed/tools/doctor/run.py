"""The public function `doctor`: measure a sample, find the bound, try changes, verify one."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpufeed._util.limits import available_threads
from gpufeed._util.progress import progress as show_progress
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.presets import train
from gpufeed.records import Manifest
from gpufeed.records.subset import Subset, as_manifest
from gpufeed.source.base import Content
from gpufeed.source.files import FileSource
from gpufeed.tools.doctor.changes import (
    BATCH,
    Candidate,
    cache_candidate,
    candidates,
    prepare_candidate,
    tier_candidate,
)
from gpufeed.tools.doctor.diagnosis import Advice, Diagnosis, Taken, Verified, largest_part, worth
from gpufeed.tools.doctor.live import Fed, Feed, free_cores, in_turns
from gpufeed.tools.doctor.model import Change, Costs, Setting, bound_of, gain
from gpufeed.tools.doctor.probe import Probe, held, measure_decoding
from gpufeed.tools.doctor.storage import Storage, drop_from_memory, measure_storage
from gpufeed.tools.median import Median, median_of

__all__ = ["doctor"]

_BATCHES = 3
_ROUND = 0.4
"""CPU seconds that the images of one round take at most, about."""
_READING, _DECODING, _MEASURING, _FEEDING = 4.0, 2.0, 15.0, 10.0
"""Seconds of each measurement, after which it is cut short."""
_FEWEST = 3
"""Rounds that are never cut."""


def doctor(
    manifest: Manifest | Subset,
    *,
    step: Callable[[Any], object] | float | None = None,
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
        ConfigError: an option is not as `Loader` takes it.
        ManifestError: no image of the sample can be decoded.
    """
    whole = as_manifest(manifest)
    options = {"transforms": train(), "batch_size": 64, **options}
    for name in ("sampler", "shard"):
        if name in options:
            raise ConfigError(f"{name} is set, but doctor feeds a sample in an order of its own")
    if not isinstance(options["batch_size"], int):
        raise ConfigError("batch_size must be an integer here; diagnose each size by itself")
    with (
        tempfile.TemporaryDirectory(prefix="gpufeed-doctor-") as folder,
        show_progress("measuring", 4, show=progress) as advance,
    ):
        return _Examination(whole, options, rounds, Path(folder)).run(step, seconds, advance)


class _Examination:
    def __init__(self, whole: Manifest, options: dict[str, Any], rounds: int, folder: Path) -> None:
        self.whole, self.options, self.rounds, self.folder = whole, options, rounds, folder

    def run(
        self,
        step: Callable[[Any], object] | float | None,
        seconds: float,
        advance: Callable[[int], None],
    ) -> Diagnosis:
        others = _OtherWork()
        batch_size = self.options["batch_size"]
        drawn = np.random.default_rng(0).permutation(len(self.whole))[
            : _BATCHES * max(batch_size, BATCH)
        ]
        batches = np.array_split(drawn, -(-len(drawn) // batch_size))
        reading = measure_storage(self.whole.source, batches, len(self.whole), seconds=_READING)
        storage = reading.storage
        read = [
            (key, each)
            for key, each in zip(drawn.tolist(), reading.contents, strict=False)
            if not isinstance(each, OSError)
        ]
        if not read:
            raise ManifestError(f"none of {len(drawn)} images that were tried can be read")
        sample, contents = self.whole.take([key for key, _ in read]), [each for _, each in read]
        decoding, bad = measure_decoding(sample, contents, _DECODING)
        good = [place for place in range(len(contents)) if place not in bad]
        if not good:
            raise ManifestError(f"none of {len(drawn)} images that were tried can be decoded")
        self._choose(sample, contents, good, statistics.mean(each.decode_ms for each in decoding))
        advance(1)

        tried = [*self._tries()]
        setting = self._setting(None)
        base, found = self._measure(tried)
        read_s, fetch = storage.cpu_ms / 1000, storage.fetch
        base = [replace(costs, read=read_s, fetch=fetch) for costs in base]
        advance(1)

        call, alone = self._step(step)
        setting = replace(setting, step=alone)
        bound = bound_of(base, setting)
        cpu_ms = self._parts(base, tried, found)
        changes = [(each, Change(costs)) for each, costs in zip(tried, found, strict=True)]
        changes += self._further(bound.name, storage, contents)
        advance(1)

        pairs = [(each, gain(base, setting, change)) for each, change in changes if each.advised]
        # What undoes the bound itself comes first, and then what gains most.
        own = {"storage": "tier", "cpu": largest_part(cpu_ms)[0]}.get(bound.name, bound.name)
        advised = sorted(
            (pair for pair in pairs if worth(pair[1])),
            key=lambda pair: (pair[0].name != own, -pair[1].median),
        )
        first = advised[0] if advised else None
        fed, after = self._apply(first and first[0], call, seconds, storage)
        advance(1)
        verified = None
        if first is not None:
            turns = [*zip(fed, after, strict=True)]
            cores = statistics.median(self.free)
            change = next(change for each, change in changes if each is first[0])
            verified = Verified(
                first[0].name,
                cores,
                gain(base, replace(setting, cores=cores), change),
                median_of([b.rate / a.rate for a, b in turns]),
                median_of([a.cpu_ms / b.cpu_ms for a, b in turns]),
            )
        rate = median_of([each.rate for each in fed])
        return Diagnosis(
            data=(len(self.whole), len(drawn)),
            device=self.device,
            setting=setting,
            storage=storage,
            decoding=decoding,
            cpu_ms=cpu_ms,
            bound=bound,
            fed=rate,
            waiting=statistics.median(each.waited for each in fed),
            taken=self._taken(fed, storage, callable(step) and alone),
            others=others.cores(),
            advice=[Advice(each.name, each.advice, gained) for each, gained in advised],
            verified=verified,
            bad=len(drawn) - len(good),
        )

    def _choose(
        self, sample: Manifest, contents: Sequence[Content], good: list[int], decode_ms: float
    ) -> None:
        """Choose the images that are measured: few batches, of fewer images if they are large."""
        size = self.options["batch_size"]
        while size % 2 == 0 and size > 4 and size * decode_ms / 1000 > _ROUND:
            size //= 2
        # Enough for a batch of any size that is tried, if need be with repeats.
        least = max(size, BATCH) if self.options["batch_size"] == size else size
        places = np.resize(good, max(min(len(good), _BATCHES * size), least))
        self.sample = sample.take(places)
        self.held = held(self.sample, [contents[place] for place in places])
        self.scale = self.options["batch_size"] / size
        self.options = {**self.options, "batch_size": size}
        # Tiers are for slow sources, and there is no such thing where images are in memory.
        tiered = isinstance(self.options.get("cache"), list | tuple)
        self.alone = {**self.options, "cache": None} if tiered else self.options

    def _setting(self, step: float | None) -> Setting:
        cores = available_threads()
        return Setting(
            cores, self.options.get("num_threads") or cores + 1, self.options["batch_size"], step
        )

    def _tries(self) -> list[Candidate]:
        with Probe(self.held, **self.alone) as probe:
            loader = probe.loader
            self.device = str(loader.device)
            self.window = [probe.decode_window(number) for number in range(self.rounds)]
            views = loader._planner.stages.views
            self.output_bytes = sum(
                np.prod(view.size) * 3 * (1 if view.output.dtype == "uint8" else 4)
                for view in views
            )
            sides = [min(view.size) for view in views]
            found = [*candidates(loader, self.options)]
        prepared = prepare_candidate(
            self.held, self.options["transforms"], sides, self.folder / "prepared"
        )
        cached = cache_candidate(self.whole, self.options)
        return [*found, *(each for each in (prepared, cached) if each is not None)]

    def _measure(self, tried: list[Candidate]) -> tuple[list[Costs], list[list[Costs]]]:
        """Measure the loader and each change in turns; forget the changes that are not possible."""
        with contextlib.ExitStack() as stack:
            probes = [stack.enter_context(Probe(self.held, **self.alone))]
            for candidate in tried.copy():
                try:
                    manifest = self.held
                    if candidate.prepared is not None:
                        prepared = candidate.prepared
                        images = prepared.source.read(np.arange(len(prepared)))
                        manifest = held(prepared, [i for i in images if not isinstance(i, OSError)])
                    probe = Probe(manifest, **{**self.alone, **candidate.options})
                except ConfigError:  # such as images of several sizes without the crop
                    tried.remove(candidate)
                else:
                    probes.append(stack.enter_context(probe))
            for probe in probes:
                probe.warm()
            found: list[list[Costs]] = [[] for _ in probes]
            deadline = time.monotonic() + _MEASURING
            for number in range(self.rounds):
                for probe, costs in zip(probes, found, strict=True):
                    costs.append(probe.round(number))
                if number + 1 >= _FEWEST and time.monotonic() > deadline:
                    break
        return found[0], found[1:]

    def _parts(
        self, base: list[Costs], tried: list[Candidate], found: list[list[Costs]]
    ) -> dict[str, Median]:
        """Return the CPU milliseconds of an image by part."""
        saved = {
            each.part: [max(a.cpu - a.read - b.cpu, 0.0) for a, b in zip(base, costs, strict=True)]
            for each, costs in zip(tried, found, strict=True)
            if each.part
        }
        rest = []
        for number, costs in enumerate(base):
            pixels = costs.open + costs.run
            taken = sum(self.window[number]) + sum(each[number] for each in saved.values())
            rest.append(max(pixels - taken, 0.0))
        parts = {
            "plan": [costs.plan for costs in base],
            "read": [costs.read for costs in base],
            "header": [header for header, _ in self.window],
            "decode": [decode for _, decode in self.window],
            "resize": rest,
            **saved,
            "hand-over": [costs.hand_over for costs in base],
        }
        return {
            name: median_of([1000 * each for each in seconds]) for name, seconds in parts.items()
        }

    def _further(
        self, bound: str, storage: Storage, contents: Sequence[Content]
    ) -> list[tuple[Candidate, Change]]:
        """Return the changes that are measured in other ways: threads, and tiers."""
        found = []
        cores, threads = available_threads(), self._setting(None).threads
        if threads <= cores:
            candidate = Candidate(
                "threads",
                f"Use num_threads={cores + 1}, the default, instead of {threads}.",
                {"num_threads": cores + 1},
            )
            found.append((candidate, Change(threads=cores + 1)))
        if bound == "storage" and not self.options.get("cache"):
            folder = self.folder / "tier"
            folder.mkdir()
            encoded = [each for each in contents if not isinstance(each, np.ndarray)]
            for number, each in enumerate(encoded):
                (folder / str(number)).write_bytes(each)
            if encoded:
                import polars as pl

                local = FileSource(folder, pl.Series([str(i) for i in range(len(encoded))]))
                keys = np.arange(len(encoded))
                read = measure_storage(local, [keys], len(self.whole), seconds=1.0).storage
                tier = tier_candidate(storage, len(self.whole), self.folder)
                found.append((tier, Change(fetch=read.fetch)))
        return found

    def _step(
        self, step: Callable[[Any], object] | float | None
    ) -> tuple[Callable[[Any], object] | None, float | None]:
        """Return what stands for the training step, and its seconds for a batch of the sample."""
        if step is None:
            return None, None
        if not callable(step):
            share = step / self.scale
            return (lambda _: time.sleep(share)), share
        with Probe(self.held, **self.alone) as probe:
            batch = probe.loader.batch(0)
        times = []
        for _ in range(self.rounds + 1):
            start = time.perf_counter()
            step(batch)
            times.append(time.perf_counter() - start)
        return step, statistics.median(times[1:])

    def _apply(
        self,
        candidate: Candidate | None,
        step: Callable[[Any], object] | None,
        seconds: float,
        storage: Storage,
    ) -> tuple[list[Fed], list[Fed]]:
        """Feed the sample from where it is, with a change and without, in turns."""
        self.free: list[float] = []
        threads = 2 * available_threads()

        def before() -> None:
            self.free.append(free_cores(threads))
            if storage.steady is storage.cold:
                drop_from_memory(self.sample.source, np.arange(len(self.sample)))

        with contextlib.ExitStack() as stack:
            feeds = [stack.enter_context(Feed(self.sample, step, **self.options))]
            if candidate is not None:
                manifest = candidate.prepared or self.sample
                options = {**self.options, **candidate.options}
                feeds.append(stack.enter_context(Feed(manifest, step, **options)))
                if "cache" in candidate.options:
                    feeds[1].warm()
            fed, *after = in_turns(feeds, self.rounds, seconds, before, (_FEWEST, _FEEDING))
        return fed, after[0] if after else []

    def _taken(self, fed: list[Fed], storage: Storage, alone: float | bool | None) -> Taken:
        rate = statistics.median(each.rate for each in fed)
        cores = statistics.median(each.cpu_ms for each in fed) * rate / 1000
        pixels = float(self.sample.sizes().prod(axis=1).mean()) * 3
        # Each is written once and read once.
        moved = 2 * (storage.mean_bytes + pixels + self.output_bytes)
        block = np.ones(1 << 26, np.uint8)
        block.copy()
        start = time.perf_counter()
        block.copy()
        limit = 2 * block.nbytes / (time.perf_counter() - start)
        stepped = statistics.median(each.step_ms for each in fed)
        return Taken(
            cores,
            moved * rate / 1e9,
            limit / 1e9,
            1000 * alone if alone else None,
            stepped if alone else None,
        )


class _OtherWork:
    """Counts the cores that other processes keep busy, since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._busy = self._now()

    def _now(self) -> float:
        try:
            ticks = [*map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])]
        except (OSError, ValueError):
            return 0.0
        return (sum(ticks) - ticks[3] - ticks[4]) / 100 - time.process_time()

    def cores(self) -> float:
        return max((self._now() - self._busy) / (time.perf_counter() - self._start), 0.0)
