"""Measure what `Loader(cache=...)` saves, and that two processes share the host's.

    python -m benchmarks.cache --data DIR...

Each folder's images are fed by loaders with a cache and without, in turns in one process: an epoch
of a new loader, which starts DALI and fills its cache, and epochs of loaders that are kept. The
figures are the CPU time of the process per image, including prefetched batches, and its ratio to
that without a cache in each round; for new loaders also images per second. The cache on the host is
filled by threads; that on the device, which here is the CPU too, by DALI's graph, which threads
cannot take the place of where a resize is left. Boxes are the middle of each image, half of each
side. "kept small" is the preset with a function that changes nothing after its resize, so that the
cache on the host keeps the resized images; the graph calls no functions.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import polars as pl

import gpufeed
from benchmarks.bad_files import Turn, in_turns
from benchmarks.machine import Machine
from gpufeed import presets
from gpufeed.transforms import Transform

_BATCH = 32
_WITH_FUNCTION = "course_train, kept small"


def _kept_small() -> list[Transform]:
    crop, resize, pad, *random = presets.course_train()
    return [crop, resize, pad, gpufeed.Lambda(lambda image: image, name="nothing"), *random]


WORK: dict[str, Callable[[], list[Transform]]] = {
    "train": presets.train,
    "course_train": presets.course_train,
    _WITH_FUNCTION: _kept_small,
    "evaluate": presets.evaluate,
}


WAYS: dict[str, dict[str, Any]] = {
    "threads": {"opener": "threads"},
    "threads, host": {"opener": "threads", "cache": "host"},
    "graph": {"opener": "graph"},
    "graph, device": {"opener": "graph", "cache": "device"},
}
"""Options of a `Loader`; each is compared with the first."""


def manifest_of(folder: Path) -> gpufeed.Manifest:
    """List the JPEGs of a folder, with boxes."""
    paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.jpg"))
    listed = gpufeed.read_table({"path": paths, "label": [0] * len(paths)}, root=folder)
    width, height = pl.col("width"), pl.col("height")
    frame = listed.frame.with_columns(
        box_x=width // 4, box_y=height // 4, box_width=width // 2, box_height=height // 2
    )
    return gpufeed.Manifest(frame, listed.source, listed.classes)


def make(manifest: gpufeed.Manifest, work: str, way: str) -> gpufeed.Loader:
    """Make a loader of shuffled batches."""
    return gpufeed.Loader(
        manifest,
        sampler=gpufeed.IndexSampler(len(manifest), shuffle=True, seed=0),
        transforms=WORK[work](),
        batch_size=_BATCH,
        last_batch="partial",
        device="cpu",
        **WAYS[way],
    )


def epoch_of(loader: gpufeed.Loader) -> int:
    """Feed an epoch; return its number of images."""
    return sum(len(batch["label"]) for batch in loader)


def new_epoch(manifest: gpufeed.Manifest, work: str, way: str) -> int:
    """Feed the first epoch of a new loader."""
    with make(manifest, work, way) as loader:
        return epoch_of(loader)


def measure(folder: Path, work: str, rounds: int) -> dict[str, Any]:
    """Measure one kind of work on one folder."""
    manifest = manifest_of(folder)
    ways = [way for way in WAYS if work != _WITH_FUNCTION or "graph" not in way]
    new: dict[str, Turn] = {
        f"first epoch: {way}": partial(new_epoch, manifest, work, way) for way in ways
    }
    found = in_turns(new, rounds)
    with contextlib.ExitStack() as stack:
        loaders = {way: stack.enter_context(make(manifest, work, way)) for way in ways}
        kept: dict[str, Turn] = {
            f"later epochs: {way}": partial(epoch_of, loader) for way, loader in loaders.items()
        }
        # An epoch begins with what was begun ahead, so that its rate says nothing.
        for name, figures in in_turns(kept, rounds).items():
            found[name] = {figure: figures[figure] for figure in ("cpu_ms", "cpu_of_first")}
        shown = [
            re.search(r"a (\w+ cache of up to [\d.,]+ .B)", repr(loader))
            for loader in loaders.values()
        ]
    return {
        "images": len(manifest),
        "cache": ", ".join(each[1] for each in shown if each),
        "figures": {
            name: {figure: asdict(each) for figure, each in row.items()}
            for name, row in found.items()
        },
    }


def shared(folder: Path, work: str) -> dict[str, float]:
    """Fill a cache in another process, and return both processes' memory of it, in MB."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    other = context.Process(target=_fill, args=(folder, work, there))
    other.start()
    here.recv()
    with make(manifest_of(folder), work, "threads, host") as loader:
        epoch_of(loader)
        here.send("both")
        found = {"mapped_mb": _memory("Rss"), "pss_mb": _memory("Pss"), **here.recv()}
    other.join()
    return found


def _fill(folder: Path, work: str, pipe: Connection) -> None:
    with make(manifest_of(folder), work, "threads, host") as loader:
        epoch_of(loader)
        pipe.send("full")
        pipe.recv()
        pipe.send({"other_mapped_mb": _memory("Rss"), "other_pss_mb": _memory("Pss")})


def _memory(kind: str) -> float:
    """Return how much of caches this process has mapped; of Pss, only its share."""
    maps = re.split(r"^(?=[0-9a-f]+-)", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)
    own = (each for each in maps if "/memfd:gpufeed-" in each)
    listed = [re.search(rf"^{kind}:\s+(\d+) kB", each, re.MULTILINE) for each in own]
    return sum(int(each[1]) for each in listed if each) / 1e3


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.cache", description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="folders of JPEGs")
    parser.add_argument("--work", nargs="+", choices=WORK, default=list(WORK))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="JSON file to write the figures to")
    given = parser.parse_args(arguments)
    results: dict[str, Any] = {}
    for folder in given.data:
        for work in given.work:
            name = f"{folder.name}, {work}"
            results[name] = row = measure(folder, work, given.rounds)
            print(f"{name}: {row['images']} images, {row['cache']}")
            for contender, figures in row["figures"].items():
                told = ", ".join(
                    f"{figure} {each['median']:,.2f} ({each['low']:,.2f} to {each['high']:,.2f})"
                    for figure, each in figures.items()
                )
                print(f"  {contender:28} {told}", flush=True)
    memory = shared(given.data[0], given.work[0])
    print(f"two processes: {memory}")
    if given.json is not None:
        kept = {"machine": asdict(Machine.here()), "results": results, "two_processes": memory}
        given.json.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
