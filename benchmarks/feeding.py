"""Measure what happens to a batch before DALI: planning, reading, checking, handing over.

No image is decoded. In the place of the engine stands one that takes the inputs of the graph, as on
a GPU, and returns nothing. The kinds of JPEGs are 16 x 16 pixels, cleaned images of birds (269 x
269, about 22 KB), originals such as NABirds' (about 161 KB), and larger progressive ones. All are
in the page cache.

    python -m benchmarks.feeding --json FILE
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import gpufeed
from benchmarks.lock_share import LockShare
from benchmarks.machine import Machine
from benchmarks.overhead import photos
from gpufeed.engine.graph import rest_feeds
from gpufeed.feed.prefetch import Prefetcher
from gpufeed.open.base import Opened

_BATCH = 256
_FILES = 512
_DRAWN = 8
"""Images that are drawn of each kind; the files are copies, each in pages of its own."""
_RECORDS = 16 * _BATCH
_PREFETCH = 2


@dataclass(frozen=True)
class Kind:
    """A kind of synthetic JPEGs: (width, height), Pillow's settings, and how much noise."""

    size: tuple[int, int]
    noise: float
    quality: int
    progressive: bool = False
    output: int = 224


KINDS = {
    "tiny": Kind((16, 16), 10, 75, output=16),
    "cleaned": Kind((269, 269), 4, 90),
    "nabirds_like": Kind((1024, 768), 3, 85),
    "progressive": Kind((1024, 768), 7.5, 85, progressive=True),
}


class NoEngine:
    """An engine that takes a batch's inputs and decodes nothing; it has `Engine`'s methods."""

    broken = False

    def begin(self, opened: Opened) -> Any:
        """Collect all inputs of the graph."""
        return opened, {**opened.feeds, **rest_feeds(opened.plan.stages)}

    def has(self, run: Any) -> bool:
        """Whether it has been begun."""
        return run is not None

    def result(self, run: Any) -> list[Any]:  # noqa: ARG002
        """Return no images."""
        return []

    def drain(self) -> None:
        """Wait for nothing."""


def draw(kind: Kind, folder: Path) -> None:
    """Write files of a kind: smooth colours with noise, from a fixed seed."""
    drawn, (width, height) = np.random.default_rng(0), kind.size
    contents = []
    for _ in range(_DRAWN):
        coarse = drawn.integers(0, 255, (height // 16 + 2, width // 16 + 2, 3), dtype=np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize(kind.size, Image.Resampling.BICUBIC))
        noisy = smooth + drawn.normal(0, kind.noise, (height, width, 1))
        buffer = io.BytesIO()
        image = Image.fromarray(noisy.clip(0, 255).astype(np.uint8))
        image.save(buffer, "JPEG", quality=kind.quality, progressive=kind.progressive)
        contents.append(buffer.getvalue())
    for number in range(_FILES):
        (folder / f"{number:04}.jpg").write_bytes(contents[number % _DRAWN])


def measure(manifest: gpufeed.Manifest, size: int, batches: int) -> dict[str, float]:
    """Return the figures of one run over a manifest's files."""
    with gpufeed.Loader(
        manifest,
        sampler=gpufeed.IndexSampler(len(manifest), shuffle=True),
        transforms=gpufeed.presets.train(size),
        batch_size=_BATCH,
        device="cpu",
        opener="graph",
    ) as loader:
        maker: Any = loader._maker
        maker._engine = NoEngine()
        prefetcher = Prefetcher(maker, loader._schedule.steps_from, _PREFETCH)
        steps = iter(range(1 << 30))

        def take(count: int) -> float:
            began = time.perf_counter()
            for _ in range(count):
                prefetcher.take(next(steps))
            return (time.perf_counter() - began) / (count * _BATCH)

        take(2 * _PREFETCH + 4)
        cpu = time.process_time()
        seconds = take(batches)
        cpu = time.process_time() - cpu
        with LockShare() as lock:
            watched = take(batches)
        prefetcher.close()
    return {
        "images_per_second": 1 / seconds,
        "lock_us_per_image": 1e6 * lock.share * watched,
        "cpu_us_per_image": 1e6 * cpu / (batches * _BATCH),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--photos", type=Path, help="folder of JPEGs to measure too")
    parser.add_argument(
        "--cores", nargs="+", type=int, help="numbers of cores; by default 1 to all"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=48, help=f"batches of {_BATCH} in a round")
    parser.add_argument("--json", type=Path, help="JSON file to write the figures to")
    options = parser.parse_args(arguments)

    own = sorted(os.sched_getaffinity(0))
    given = [1 << power for power in range(len(own).bit_length())]
    found: dict[str, dict[int, list[dict[str, float]]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        manifests = {}
        for name in options.kinds:
            folder = Path(scratch) / name
            folder.mkdir()
            draw(KINDS[name], folder)
            manifests[name] = photos(folder, _RECORDS // _FILES), KINDS[name].output
        if options.photos is not None:
            one = photos(options.photos, 1)
            manifests["photos"] = photos(options.photos, -(-_RECORDS // len(one))), 224
        for _ in range(options.rounds):
            for name, (manifest, size) in manifests.items():
                for cores in options.cores or given:
                    os.sched_setaffinity(0, own[:cores])
                    figures = measure(manifest, size, options.batches)
                    found.setdefault(name, {}).setdefault(cores, []).append(figures)
    os.sched_setaffinity(0, own)
    report: dict[str, Any] = {}
    print(f"{Machine.here()}\n\n| files | cores | images/s | lock, us | CPU, us |")
    print("|---|--:|--:|--:|--:|")
    for name, by_cores in found.items():
        for cores, rounds in by_cores.items():
            middle = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
            rate, lock, cpu = middle.values()
            print(f"| {name} | {cores} | {rate:,.0f} | {lock:.1f} | {cpu:.1f} |")
            report.setdefault(name, {}).update(middle)  # of the most cores, which come last
            report[name].setdefault("by_cores", {})[cores] = {"median": middle, "rounds": rounds}
    if options.json is not None:
        report["machine"] = asdict(Machine.here())
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
