"""Measure what the interpreter's lock allows: images/s of 1 to 32 threads that pretend to decode.

A pretended decoder stands for one on a core of its own: it sleeps for as long as decode and resize
work without the lock, and computes for as long as copies into the resize hold it. All else is real:
reading a small file, checking its header, planning, a resize of 16 x 16 pixels, DALI's
normalisation, handing over. So this tells nothing of memory bandwidth, nor of decoders that share
caches.

With work that takes no time, CPU time per image is what the interpreter takes for each.

    python -m benchmarks.threads
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gpufeed
from benchmarks.machine import Machine
from benchmarks.overhead import tiny

_BATCH = 64


@dataclass(frozen=True)
class Work:
    """Microseconds of one image: without the lock, and with it."""

    free: int
    held: int


WORKS = {
    "originals": Work(free=2_350, held=170),
    "cleaned": Work(free=380, held=24),
    "nothing": Work(free=0, held=0),
}
"""As measured on one thread: see NOTES.md."""


@dataclass(frozen=True)
class Round:
    """Images/s, and CPU microseconds of an image in the process without its pretended work."""

    images_per_second: float
    cpu_us: float


def pretender(work: Work) -> type:
    """Return a decoder that pretends this work."""

    class Pretender:
        def decode(self, content: Any, start: Any, shape: tuple[int, int]) -> Any:  # noqa: ARG002
            if work.free:
                time.sleep(work.free / 1e6)
            until = time.perf_counter() + work.held / 1e6
            while work.held and time.perf_counter() < until:
                pass
            return np.zeros((*shape, 3), np.uint8)

    return Pretender


def alone(decoder: type) -> float:
    """Seconds of one call, on one thread with nothing else to do."""
    decode: Callable[..., Any] = decoder().decode
    times = []
    for _ in range(200):
        began = time.perf_counter()
        decode(b"", (0, 0), (16, 16))
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def endless(loader: gpufeed.Loader) -> Iterator[Any]:
    """Batches of all epochs."""
    while True:
        yield from loader


def measure(manifest: gpufeed.Manifest, work: Work, threads: int, seconds: float) -> Round:
    """Feed for some seconds."""
    with gpufeed.Loader(
        manifest,
        transforms=gpufeed.presets.train(16),
        batch_size=_BATCH,
        num_threads=threads,
        device="cpu",
        decoder=pretender(work),
    ) as loader:
        batches = endless(loader)
        for _ in range(8):
            next(batches)
        images, cpu, began = 0, time.process_time(), time.perf_counter()
        while (wall := time.perf_counter() - began) < seconds:
            next(batches)
            images += _BATCH
        cpu = time.process_time() - cpu
    return Round(images / wall, 1e6 * cpu / images - work.held)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--json", type=Path, help="JSON file to write the figures to")
    options = parser.parse_args(arguments)

    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        manifest = tiny(Path(scratch), 4_096)
        for name, work in WORKS.items():
            once = alone(pretender(work))
            figures[name] = {**asdict(work), "alone_us": 1e6 * once, "threads": {}}
            for threads in options.threads:
                rounds = [
                    measure(manifest, work, threads, options.seconds) for _ in range(options.rounds)
                ]
                figures[name]["threads"][threads] = [asdict(each) for each in rounds]
                rate = statistics.median(each.images_per_second for each in rounds)
                cpu = statistics.median(each.cpu_us for each in rounds)
                ideal = f"{rate * once / threads:5.2f} of the ideal" if work.free else ""
                print(f"{name:10} {threads:3} threads {rate:8,.0f} images/s {ideal}, {cpu:4.0f} us")
    print(f"\n{Machine.here()}; load {os.getloadavg()[0]:.1f}")
    if options.json is not None:
        found = {"machine": asdict(Machine.here()), "load": os.getloadavg(), "figures": figures}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
