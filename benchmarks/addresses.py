"""Measure the cost of addressing: permuted indices, planned batches, and resuming at a late step.

Each figure is the median over rounds, in which all measurements take turns. CPU time is this
thread's. For comparison, the rates of NumPy (its own permutation of 10 million) and, if it is
installed, of Grain stand next to those of permuted indices.

    python -m benchmarks.addresses
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

import gpufeed
from benchmarks.machine import Machine
from gpufeed.order.permutation import Key, permute
from gpufeed.order.schedule import Schedule
from gpufeed.plan.planner import Planner

_BATCH = 4_096
_PLANNED = 256
_RECORDS = 24_633
_FAR = 1_000_000

Measure = Callable[[], float]


def repeated(work: Callable[[int], object], times: int) -> float:
    """CPU seconds of one call, over `times` of them."""
    began = time.thread_time()
    for number in range(times):
        work(number)
    return (time.thread_time() - began) / times


def rates(size: int) -> dict[str, Measure]:
    """Indices a second of a batch of 4,096 from an order of `size` records."""
    drawn = np.random.default_rng(0).integers(0, size, _BATCH)
    measures: dict[str, Measure] = {
        f"gpufeed, {size:,} records": lambda: (
            _BATCH / repeated(lambda epoch: permute(drawn, size, Key(1, epoch % 8)), 50)
        ),
    }
    try:
        from grain.python import IndexSampler
    except ImportError:
        return measures
    theirs = IndexSampler(size, shuffle=True, seed=1)
    few = drawn[:512].tolist()
    measures[f"Grain, {size:,} records"] = lambda: (
        len(few) / repeated(lambda _: [theirs[index] for index in few], 1)
    )
    return measures


def numpy_rate() -> float:
    """Indices a second of NumPy, which must lay out the whole order."""
    size = 10_000_000
    return size / repeated(lambda seed: np.random.default_rng(seed).permutation(size), 1)


def table(records: int) -> gpufeed.Manifest:
    """A manifest like NABirds' test split, of files that are not there."""
    drawn = np.random.default_rng(1)
    width, height = drawn.integers(500, 1025, records), drawn.integers(400, 1025, records)
    frame = pl.DataFrame(
        {
            "path": [f"{key:06}.jpg" for key in range(records)],
            "label": (np.arange(records) % 404).astype(np.int32),
            "width": width.astype(np.int32),
            "height": height.astype(np.int32),
        }
    )
    return gpufeed.Manifest(frame, "/nowhere", [f"class {label}" for label in range(404)])


def plans(manifest: gpufeed.Manifest) -> dict[str, Measure]:
    """CPU milliseconds for the plan of a batch of 256 with the train preset."""
    count, labels = len(manifest), manifest.frame["label"]
    samplers: list[gpufeed.Sampler] = [
        gpufeed.SequentialSampler(count),
        gpufeed.IndexSampler(count, shuffle=True),
        gpufeed.RepeatedAugmentationSampler(count),
        gpufeed.WeightedSampler(gpufeed.balanced_weights(labels)),
        gpufeed.ClassBalancedBatchSampler(labels, classes_per_batch=32, records_per_class=8),
        gpufeed.MixtureSampler([count // 3, count - count // 3], (1, 1)),
    ]

    def measure(sampler: gpufeed.Sampler) -> Measure:
        schedule = Schedule(sampler.epoch_size, None, _PLANNED, gpufeed.ShardOptions(), "drop")
        planner = Planner(manifest, sampler, schedule, gpufeed.presets.train(224))
        return lambda: 1e3 * repeated(planner.plan, 40)

    return {type(sampler).__name__: measure(sampler) for sampler in samplers}


def openings(folder: Path) -> dict[str, Measure]:
    """Seconds from a state to its first batch, the loader's making included."""
    rows = []
    for number in range(64):
        name = f"{number}.jpg"
        Image.new("RGB", (64, 48), (number, 99, 3)).save(folder / name)
        rows.append({"path": name, "label": 0})
    manifest = gpufeed.read_table(pl.DataFrame(rows), root=folder)
    sampler = gpufeed.IndexSampler(len(manifest), shuffle=True)

    def open_at(step: int) -> float:
        with gpufeed.Loader(manifest, sampler=sampler, batch_size=16, device="cpu") as saved:
            saved.seek(step)
            state = saved.get_state()
        began = time.perf_counter()
        with gpufeed.Loader(manifest, sampler=sampler, batch_size=16, device="cpu") as loader:
            loader.set_state(state)
            next(iter(loader))
            return time.perf_counter() - began

    return {f"step {step:,}": functools.partial(open_at, step) for step in (0, _FAR)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="JSON file to write the figures to")
    options = parser.parse_args(arguments)

    with tempfile.TemporaryDirectory() as scratch:
        groups: dict[str, dict[str, Measure]] = {
            "indices a second": {
                **rates(10**9),
                **rates(4),
                "NumPy, 10,000,000 records laid out": numpy_rate,
            },
            f"CPU ms for the plan of {_PLANNED} records": plans(table(_RECORDS)),
            "seconds from a state to its first batch": openings(Path(scratch)),
        }
        found: dict[str, dict[str, list[float]]] = {
            title: {name: [] for name in group} for title, group in groups.items()
        }
        for number in range(options.rounds + 1):
            print(f"round {number}/{options.rounds}" + " (warm-up)" * (number == 0))
            for title, group in groups.items():
                for name, measure in group.items():
                    figure = measure()
                    if number:
                        found[title][name].append(figure)

    print(f"\n{Machine.here()}")
    for title, group_found in found.items():
        print(f"\n{title}, median of {options.rounds} rounds (least to most)")
        for name, values in group_found.items():
            middle = statistics.median(values)
            print(f"  {name:40} {middle:12,.4g}  ({min(values):,.4g} to {max(values):,.4g})")
    if options.json is not None:
        report = {"machine": asdict(Machine.here()), "figures": found}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
