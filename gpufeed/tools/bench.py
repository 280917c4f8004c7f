"""The speed of feeding a user's own data, compared with plain decode of the same images."""

from __future__ import annotations

import itertools
import json
import math
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.progress import progress as progress_bar
from gpufeed.errors import ConfigError
from gpufeed.feed.loader import Loader
from gpufeed.order.shard import ShardOptions
from gpufeed.order.uniform import IndexSampler
from gpufeed.sheets.sheet import write_checked
from gpufeed.tools.info import list_versions
from gpufeed.tools.median import Median, median_of
from gpufeed.tools.plain_decode import PlainDecode
from gpufeed.tools.quiet import wait_until_quiet
from gpufeed.tools.resolve import Preset, is_training, make_transforms

if TYPE_CHECKING:
    from gpufeed.adapters import Framework
    from gpufeed.feed.loader import Batch
    from gpufeed.order.schedule import LastBatch
    from gpufeed.records import Manifest

__all__ = ["Bench", "Rate", "Waiting", "bench", "save_json"]


@dataclass(frozen=True)
class Rate:
    """The speed of a measurement, as medians over the rounds.

    Attributes:
        images_per_second: images per second.
        cpu_ms: CPU time of the whole process per image, in milliseconds.
    """

    images_per_second: Median
    cpu_ms: Median


@dataclass(frozen=True)
class Waiting:
    """The waiting of a consumer that works on each batch for a given time.

    Attributes:
        step_ms: the time it works on each batch, in milliseconds.
        share: the share of its time spent waiting for batches, 0 to 1.
        images_per_second: the images per second it receives.
    """

    step_ms: float
    share: Median
    images_per_second: Median


@dataclass(frozen=True)
class Bench:
    """The result of a measurement.

    Attributes:
        device: the device it ran on.
        first_batch_s: seconds from making the loader to its first batch.
        peak_mib: the peak host memory of the whole process after the first round, in MiB.
        batches: the number of batches in each round.
        fed: the speed of the loader, with a consumer that does nothing.
        decoded: the speed of plain decode of the same images.
        over_decoded: the loader's images/s divided by plain decode's, round by round.
        waiting: the waiting of a consumer, if `step_ms` was given.
    """

    device: str
    first_batch_s: float
    peak_mib: float
    batches: int
    fed: Rate
    decoded: Rate
    over_decoded: Median
    waiting: Waiting | None


@dataclass(frozen=True)
class _Round:
    images: int
    seconds: float
    cpu_seconds: float
    waited: float

    @property
    def rate(self) -> float:
        return self.images / self.seconds


def bench(
    manifest: Manifest,
    *,
    preset: Preset = "train",
    size: int = 224,
    batch_size: int = 64,
    threads: int | None = None,
    prefetch: int = 2,
    framework: Framework = "numpy",
    device: str = "auto",
    seed: int = 0,
    rounds: int = 5,
    seconds: float = 2.0,
    step_ms: float | None = None,
    progress: bool | None = None,
) -> Bench:
    """Measure feeding a manifest in rounds, each followed by plain decode of the same images.

    A training preset is fed in shuffled epochs with last_batch="drop", an evaluation preset in the
    manifest's order to the last record, over and over. Plain decode follows in the same round, so
    that it finds the files in the page cache.

    Args:
        manifest: the records.
        preset: the name of the transforms.
        size: the side of the output in pixels.
        batch_size: records in a batch.
        threads: CPU threads of the loader and of plain decode; None for the loader's default, and
            for one thread per core in plain decode.
        prefetch: as for `Loader`.
        framework: as for `Loader`.
        device: as for `Loader`.
        seed: the seed of the order and of the random transforms.
        rounds: the number of rounds.
        seconds: the approximate time of feeding in each round.
        step_ms: also measure a consumer that works on each batch for this many milliseconds.
        progress: True or False to force or silence the progress bar; None shows it on a terminal.

    Raises:
        ConfigError: an argument is out of range.
        GpufeedError: as `Loader` does.
    """
    for name, value in (("rounds", rounds), ("seconds", seconds)):
        if not value > 0 or math.isinf(value):
            raise ConfigError(f"{name} is {value}; it must be a number above 0")
    if step_ms is not None and not 0 <= step_ms < math.inf:
        raise ConfigError(f"step_ms is {step_ms}; it must be a number of 0 or more")
    training = is_training(preset)
    last_batch: LastBatch = "drop" if training else "partial"
    phases = 2 + (step_ms is not None)
    start = time.perf_counter()
    with (
        Loader(
            manifest,
            sampler=IndexSampler(len(manifest), shuffle=training, seed=seed),
            transforms=make_transforms(preset, size),
            batch_size=batch_size,
            last_batch=last_batch,
            device=device,
            framework=framework,
            num_threads=threads,
            prefetch=prefetch,
            shard=ShardOptions(),
        ) as loader,
        PlainDecode(manifest.source, loader.device, threads) as plain,
        progress_bar("measuring", 1 + rounds * phases, show=progress) as advance,
    ):
        batches = _endless(loader)
        next(batches)
        first = time.perf_counter() - start
        warm = _feed(batches, until=seconds)[0]
        count = max(round(warm.rate * seconds / batch_size), 2)
        advance(1)
        fed, decoded, paced, peak = [], [], [], 0.0
        for number in range(rounds):
            _drain(batches, prefetch)
            taken, keys = _feed(batches, count=count)
            fed.append(taken)
            if number == 0:
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            advance(1)
            wait_until_quiet(seconds=10)  # the loader prepares further batches
            decoded.append(_decode(plain, [_on_host(each) for each in keys]))
            advance(1)
            if step_ms is not None:
                _drain(batches, prefetch)
                step = step_ms / 1000
                slow = max(round(seconds / max(step, taken.seconds / count)), 2)
                paced.append(_feed(batches, count=min(count, slow), step=step)[0])
                advance(1)
        return Bench(
            device=loader.device,
            first_batch_s=first,
            peak_mib=peak,
            batches=count,
            fed=_rate(fed),
            decoded=_rate(decoded),
            over_decoded=median_of([a.rate / b.rate for a, b in zip(fed, decoded, strict=True)]),
            waiting=None
            if step_ms is None
            else Waiting(
                step_ms,
                median_of([each.waited / each.seconds for each in paced]),
                median_of([each.rate for each in paced]),
            ),
        )


def _endless(loader: Loader) -> Iterator[Batch]:
    while True:
        yield from loader


def _drain(batches: Iterator[Batch], prefetch: int) -> None:
    """Take the batches prepared during other measurements, which would be a head start."""
    for _ in range(2 * prefetch + 1):
        next(batches)


def _feed(
    batches: Iterator[Batch],
    *,
    count: int | None = None,
    until: float = math.inf,
    step: float = 0.0,
) -> tuple[_Round, list[Any]]:
    """Take `count` batches, or those of `until` seconds, working `step` seconds on each.

    Returns:
        The figures, and the record keys of each batch.
    """
    keys: list[Any] = []
    images, waited = 0, 0.0
    cpu, start = time.process_time(), time.perf_counter()
    for _ in itertools.repeat(None) if count is None else range(count):
        asked = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - asked
        images += len(batch["record_key"])
        keys.append(batch["record_key"])
        if step:
            time.sleep(step)
        if time.perf_counter() - start >= until:
            break
    seconds = time.perf_counter() - start
    return _Round(images, seconds, time.process_time() - cpu, waited), keys


def _on_host(keys: Any) -> npt.NDArray[np.int64]:
    """Return a framework's array as a NumPy array."""
    return np.asarray(keys.cpu() if hasattr(keys, "cpu") else keys).astype(np.int64)


def _decode(plain: PlainDecode, batches: Sequence[npt.NDArray[np.int64]]) -> _Round:
    cpu, start = time.process_time(), time.perf_counter()
    plain.run(batches)
    seconds = time.perf_counter() - start
    images = sum(map(len, batches))
    return _Round(images, seconds, time.process_time() - cpu, 0.0)


def _rate(rounds: Sequence[_Round]) -> Rate:
    return Rate(
        median_of([each.rate for each in rounds]),
        median_of([1000 * each.cpu_seconds / each.images for each in rounds]),
    )


def save_json(result: Bench, arguments: dict[str, Any], path: Path) -> None:
    """Write the figures, the arguments and the versions of packages, atomically.

    Raises:
        ConfigError: the file cannot be written.
    """
    versions = {fact.name: fact.value for fact in list_versions()}
    content = {"asked": arguments, "found": asdict(result), "versions": versions}
    write_checked(path, (json.dumps(content, indent=1) + "\n").encode())
