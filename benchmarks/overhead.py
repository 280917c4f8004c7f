"""Measure the overhead of gpufeed over DALI: the same work by gpufeed and by a pipeline by hand.

There are two cases. "photos" decodes, randomly crops, resizes, flips and normalises the images of a
folder, in batches of 64. "machinery" does the same to 16 x 16 JPEGs in batches of 256, where almost
only the overhead is left. The hand-written pipeline is that of DALI's documentation, with its own
file reader, a window decode and the same filter.

Both run in this process in turns, A B B A, after a warm-up; figures are medians over the rounds.
CPU time is that of the whole process with all its threads, including prefetched batches. Those
batches are a head start for the next turn's images/s, which other processes on the machine affect
as well.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image

import gpufeed
from benchmarks.dali import documented
from benchmarks.machine import Machine

_SETTLE = 1.2
"""Seconds in which what was begun ahead is finished: two batches of photos, on few cores."""


@dataclass(frozen=True)
class Round:
    """One contender's figures in one round."""

    images_per_second: float
    cpu_ms_per_image: float


@dataclass(frozen=True)
class Case:
    """All rounds of one case."""

    name: str
    images: int
    batch_size: int
    size: int
    gpufeed: list[Round]
    by_hand: list[Round]

    def ratio(self, field: str) -> float:
        """Median over the rounds of gpufeed's figure over that of the pipeline by hand."""
        pairs = zip(self.gpufeed, self.by_hand, strict=True)
        middle: float = statistics.median(
            getattr(ours, field) / getattr(dali, field) for ours, dali in pairs
        )
        return middle


def dali_batches(
    files: Sequence[str], size: int, batch_size: int, threads: int, device: str
) -> Iterator[Any]:
    """Endless batches of the pipeline by hand."""
    on_gpu = device != "cpu"
    pipeline = documented(
        list(files),
        size,
        on_gpu,
        batch_size=batch_size,
        num_threads=threads,
        device_id=0 if on_gpu else None,
        prefetch_queue_depth=2,
    )
    pipeline.build()
    pipeline.schedule_run()
    while True:
        image, _label = pipeline.share_outputs()
        tensor = image.as_tensor()
        pipeline.release_outputs()
        pipeline.schedule_run()
        yield tensor


def gpufeed_batches(
    manifest: gpufeed.Manifest, size: int, batch_size: int, threads: int, device: str
) -> Iterator[Any]:
    """Endless batches of a loader."""
    loader = gpufeed.Loader(
        manifest,
        sampler=gpufeed.IndexSampler(len(manifest), shuffle=True),
        transforms=gpufeed.presets.train(size),
        batch_size=batch_size,
        num_threads=threads,
        device=device,
    )
    while True:
        yield from loader


def timed(batches: Iterator[Any], count: int, batch_size: int) -> Round:
    """Take `count` batches; their successors, begun meanwhile, are finished on the same account."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        next(batches)
    images = count * batch_size
    wall = time.perf_counter() - wall
    time.sleep(_SETTLE)
    return Round(
        images_per_second=images / wall,
        cpu_ms_per_image=1e3 * (time.process_time() - cpu) / images,
    )


def measure(
    name: str,
    manifest: gpufeed.Manifest,
    *,
    size: int,
    batch_size: int,
    batches: int,
    rounds: int,
    threads: int,
    device: str,
    say: Callable[[str], None],
) -> Case:
    """Run both in turns."""
    files = [str(manifest.root / path) for path in manifest.frame["path"]]
    ours = gpufeed_batches(manifest, size, batch_size, threads, device)
    dali = dali_batches(files, size, batch_size, threads, device)
    case = Case(name, len(manifest), batch_size, size, [], [])
    for number in range(rounds + 1):
        if number % 2:
            other = timed(dali, batches, batch_size)
            pair = timed(ours, batches, batch_size), other
        else:
            pair = timed(ours, batches, batch_size), timed(dali, batches, batch_size)
        if number == 0:
            continue  # warm-up
        case.gpufeed.append(pair[0])
        case.by_hand.append(pair[1])
        say(
            f"{name} {number}/{rounds}: gpufeed {pair[0].images_per_second:8.0f} images/s, "
            f"{pair[0].cpu_ms_per_image:.4f} CPU ms/image; by hand "
            f"{pair[1].images_per_second:8.0f}, {pair[1].cpu_ms_per_image:.4f}"
        )
    return case


def photos(folder: Path, repeat: int) -> gpufeed.Manifest:
    """All images below a folder, `repeat` times."""
    names = sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.suffix.lower() in {".jpg", ".jpeg"}
    )
    table = pl.DataFrame({"path": names * repeat, "label": [0] * len(names) * repeat})
    return gpufeed.read_table(table, root=folder)


def tiny(folder: Path, count: int) -> gpufeed.Manifest:
    """16 x 16 JPEGs."""
    drawn = np.random.default_rng(0)
    for number in range(count):
        buffer = io.BytesIO()
        levels = drawn.integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(levels).save(buffer, "JPEG")
        (folder / f"{number:05}.jpg").write_bytes(buffer.getvalue())
    return photos(folder, 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder of photos")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--batches", type=int, default=7, help="batches of 64 photos in each round")
    parser.add_argument("--threads", type=int, help="CPU threads; by default one per core")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path, help="JSON file to write the figures to")
    options = parser.parse_args(arguments)

    machine = Machine.here()
    device = options.device
    if device == "auto":
        device = "cuda" if machine.gpu else "cpu"
    shared = {
        "rounds": options.rounds,
        "threads": options.threads or machine.cores,
        "device": device,
        "say": print,
    }
    with tempfile.TemporaryDirectory() as scratch:
        manifest = photos(options.data, repeat=16)
        cases = [
            measure("photos", manifest, size=224, batch_size=64, batches=options.batches, **shared),
            measure(
                "machinery",
                tiny(Path(scratch), 32_768),
                size=16,
                batch_size=256,
                batches=160,
                **shared,
            ),
        ]
    print(f"\n{machine}")
    for case in cases:
        fastest = statistics.median(each.images_per_second for each in case.gpufeed)
        print(
            f"{case.name}: {fastest:,.0f} images/s; over the pipeline by hand: "
            f"{case.ratio('cpu_ms_per_image'):.3f} of the CPU time an image, "
            f"{case.ratio('images_per_second'):.3f} of the images/s"
        )
    if options.json is not None:
        found = {"machine": asdict(machine), "device": device, "cases": [asdict(c) for c in cases]}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
