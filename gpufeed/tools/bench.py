"""How fast a recipe is fed from a user's own data, and how far that is from plain decode."""

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
from gpufeed.order.uniform import IndexSampler
from gpufeed.tools.info import list_versions
from gpufeed.tools.median import Median, median_of
from gpufeed.tools.named import Preset, is_training, make_transforms
from gpufeed.tools.plain_decode import PlainDecode
from gpufeed.tools.sheet import check_writable, write_checked

if TYPE_CHECKING:
    from gpufeed.adapters import Framework
    from gpufeed.feed.loader import Batch
    from gpufeed.order.schedule import LastBatch
    from gpufeed.records import Manifest

__all__ = ["Bench", "Rate", "Waiting", "bench", "check_json", "save_json"]


@dataclass(frozen=True)
class Rate:
    """How fast something is.

    Attributes:
        images_per_second: medians over the rounds, as all figures here.
        cpu_ms: CPU time for an image, of the whole process, milliseconds.
    """

    images_per_second: Median
    cpu_ms: Median


@dataclass(frozen=True)
class Waiting:
    """What a consumer that works on each batch for a while meets.

    Attributes:
        step_ms: how long it works, milliseconds.
        share: of its time that it waits for batches, 0 to 1.
        images_per_second: that it gets.
    """

    step_ms: float
    share: Median
    images_per_second: Median


@dataclass(frozen=True)
class Bench:
    """What was found.

    Attributes:
        device: where it ran.
        first_batch_s: seconds from making the loader to its first batch.
        peak_mib: the most host memory this process has held, with all that is loaded into it, once
            the first round was fed; MiB.
        batches: in each round.
        fed: what the loader gives a consumer that does nothing.
        decoded: plain decode of the same images, and nothing else.
        over_decoded: the loader's images/s as a part of plain decode's, round by round.
        waiting: where a step's time was given.
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
    """Feed a manifest in rounds, in this process, in turns with plain decode of the same images.

    A training preset is fed in shuffled epochs without their tails, an evaluating one in the
    manifest's order to the last record, on and on. Files are read from wherever they are; plain
    decode follows in the same round, so that it finds them in the page cache.

    Args:
        manifest: the records.
        preset: what is done to the images.
        size: side of the output, pixels.
        batch_size: records in a batch.
        threads: CPU threads of the loader, and of plain decode; where none is given, the loader's
            own choice, and for plain decode one for each core.
        prefetch: as for `Loader`.
        framework: as for `Loader`.
        device: as for `Loader`.
        seed: of the order and of the random transforms.
        rounds: how many.
        seconds: that feeding takes in each round, about.
        step_ms: also have a consumer work on each batch for so many milliseconds.
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
    began = time.perf_counter()
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
        ) as loader,
        PlainDecode(manifest.source, loader.device, threads) as plain,
        progress_bar("measuring", 1 + rounds * phases, show=progress) as advance,
    ):
        batches = _endless(loader)
        next(batches)
        first = time.perf_counter() - began
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
            decoded.append(_decode(plain, [_on_host(each) for each in keys]))
            advance(1)
            if step_ms is not None:
                _drain(batches, prefetch)
                step = step_ms / 1000
                slow = max(round(seconds / max(step, taken.seconds / count)), 2)
                paced.append(_feed(batches, count=min(count, slow), step=step)[0])
                advance(1)
        return Bench(
            device=str(loader.device),
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
    """Take what was begun while others had their turn, so that it is no head start."""
    for _ in range(prefetch + 2):
        next(batches)


def _feed(
    batches: Iterator[Batch],
    *,
    count: int | None = None,
    until: float = math.inf,
    step: float = 0.0,
) -> tuple[_Round, list[Any]]:
    """Take `count` batches, or as many as come within `until` seconds, working `step` on each.

    Returns:
        The figures, and of each batch its record keys.
    """
    keys: list[Any] = []
    images, waited = 0, 0.0
    cpu, began = time.process_time(), time.perf_counter()
    for _ in itertools.repeat(None) if count is None else range(count):
        asked = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - asked
        images += len(batch["label"])
        keys.append(batch["record_key"])
        if step:
            time.sleep(step)
        if time.perf_counter() - began >= until:
            break
    seconds = time.perf_counter() - began
    return _Round(images, seconds, time.process_time() - cpu, waited), keys


def _on_host(keys: Any) -> npt.NDArray[np.int64]:
    """Return a framework's array as NumPy's."""
    return np.asarray(keys.cpu() if hasattr(keys, "cpu") else keys).astype(np.int64)


def _decode(plain: PlainDecode, batches: Sequence[npt.NDArray[np.int64]]) -> _Round:
    cpu, began = time.process_time(), time.perf_counter()
    plain.run(batches)
    seconds = time.perf_counter() - began
    images = sum(map(len, batches))
    return _Round(images, seconds, time.process_time() - cpu, 0.0)


def _rate(found: Sequence[_Round]) -> Rate:
    return Rate(
        median_of([each.rate for each in found]),
        median_of([1000 * each.cpu_seconds / each.images for each in found]),
    )


def check_json(path: str | Path) -> Path:
    """Return where figures will be written.

    Raises:
        ConfigError: it is a folder, or its folder does not exist or cannot be written to.
    """
    target = Path(path).expanduser()
    if target.is_dir():
        raise ConfigError(f"cannot write {target}: it is a folder; name a file")
    return check_writable(target)


def save_json(found: Bench, asked: dict[str, Any], path: Path) -> None:
    """Write the figures, what was asked for, and their versions; whole or not at all.

    Raises:
        ConfigError: the file cannot be written.
    """
    versions = {fact.name: fact.value for fact in list_versions()}
    content = {"asked": asked, "found": asdict(found), "versions": versions}
    write_checked(path, (json.dumps(content, indent=1) + "\n").encode())
