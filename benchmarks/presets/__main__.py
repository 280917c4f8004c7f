"""Runs `python -m benchmarks.presets`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import gpufeed
from benchmarks.addresses import repeated
from benchmarks.machine import Machine
from benchmarks.presets import by_hand, by_torchvision
from benchmarks.presets.result import GPUFEED, Cost, Planning, Result, median_ratio
from gpufeed import presets
from gpufeed.order.schedule import Schedule
from gpufeed.plan.planner import Planner
from gpufeed.tools.median import Median
from gpufeed.tools.quiet import wait_until_quiet

PLANNED = 256
BY_HAND, TORCHVISION = "DALI by hand", "torchvision"


def photos(folder: Path) -> gpufeed.Manifest:
    """All images below a folder; where they have no boxes, each has one around its middle."""
    names = sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.suffix.lower() in {".jpg", ".jpeg"}
    )
    found = gpufeed.read_table(
        pl.DataFrame({"path": names, "label": [0] * len(names)}), root=folder
    )
    height, width = found.sizes().T
    return gpufeed.Manifest(_boxed(found.frame, height, width), found.root, found.classes)


def _boxed(frame: pl.DataFrame, height: Any, width: Any) -> pl.DataFrame:
    sides = {"box_x": width // 4, "box_y": height // 4}
    sides |= {"box_width": width // 2, "box_height": height // 2}
    return frame.with_columns(
        **{name: pl.Series(values.astype(np.int32)) for name, values in sides.items()}
    )


def gpufeed_batches(
    manifest: gpufeed.Manifest, preset: str, batch_size: int, threads: int
) -> Iterator[Any]:
    """Endless batches of a loader."""
    with gpufeed.Loader(
        manifest,
        sampler=gpufeed.IndexSampler(len(manifest), shuffle=True),
        transforms=getattr(presets, preset)(),
        batch_size=batch_size,
        num_threads=threads,
        device="cpu",
    ) as loader:
        while True:
            yield from loader


def timed(batches: Iterator[Any], count: int, batch_size: int) -> float:
    """CPU ms an image of `count` batches, and of those begun ahead in their place, to their end.

    Waits until the process is quiet, so that no contender works on another's account.
    """
    began = time.process_time()
    for _ in range(count):
        next(batches)
    return 1e3 * (wait_until_quiet() - began) / (count * batch_size)


def contenders(
    manifest: gpufeed.Manifest, preset: str, batch_size: int, threads: int, absent: dict[str, str]
) -> dict[str, Iterator[Any]]:
    """All who can make a preset."""
    files = [str(manifest.root / path) for path in manifest.frame["path"]]
    found = {GPUFEED: gpufeed_batches(manifest, preset, batch_size, threads)}
    if preset in by_hand.PIPELINES:
        found[BY_HAND] = by_hand.batches(preset, files, batch_size, threads)
    if preset in by_torchvision.RECIPES and TORCHVISION not in absent:
        found[TORCHVISION] = by_torchvision.batches(preset, files, batch_size)
    return found


def measure(
    manifest: gpufeed.Manifest,
    preset: str,
    *,
    batch_size: int,
    batches: int,
    rounds: int,
    threads: int,
    absent: dict[str, str],
    say: Callable[[str], None],
) -> list[Cost]:
    """Run all contenders of a preset in turns, to and fro, after a round to warm up."""
    running = contenders(manifest, preset, batch_size, threads, absent)
    costs = {name: Cost(preset, name, []) for name in running}
    for number in range(rounds + 1):
        order = list(running) if number % 2 else list(running)[::-1]
        for name in order:
            milliseconds = timed(running[name], batches, batch_size)
            if number:
                costs[name].cpu_ms.append(milliseconds)
    for iterator in running.values():
        iterator.close()  # type: ignore[attr-defined]
    for cost in costs.values():
        say(f"{preset:20} {cost.contender:14} {_told(cost.median)} CPU ms an image")
    return list(costs.values())


def plans(rounds: int, chosen: Sequence[str], records: int = 24_633) -> list[Planning]:
    """CPU ms for the plans of batches of 256 of a set like NABirds' test split, in turns."""
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
    classes = [f"class {label}" for label in range(404)]
    manifest = gpufeed.Manifest(_boxed(frame, height, width), "/nowhere", classes)
    sampler = gpufeed.IndexSampler(records, shuffle=True)
    schedule = Schedule(sampler.epoch_size, None, PLANNED, gpufeed.ShardOptions(), "drop")
    planners = {
        name: Planner(manifest, sampler, schedule, getattr(presets, name)()) for name in chosen
    }
    found = [Planning(name, PLANNED, []) for name in chosen]
    for number in range(rounds + 1):
        for each in found:
            milliseconds = 1e3 * repeated(planners[each.preset].plan, 20)
            if number:
                each.cpu_ms.append(milliseconds)
    return found


def table(result: Result) -> str:
    """Everything, as Markdown."""
    lines = [
        "| preset | gpufeed, CPU ms an image | over DALI by hand | over torchvision | "
        f"plan of {PLANNED}, ms |",
        "|---|--:|--:|--:|--:|",
    ]
    for plan in result.planning:
        own = result.cost(plan.preset)
        cells = ["" if own is None else _told(own.median)]
        for name in (BY_HAND, TORCHVISION):
            other = result.cost(plan.preset, name)
            cells.append("" if own is None or other is None else _told(median_ratio(own, other)))
        lines.append(f"| {plan.preset} | {' | '.join(cells)} | {_told(plan.median)} |")
    absent = [f"Absent: {name}: {why}" for name, why in result.absent.items()]
    return "\n".join([*lines, *absent])


def _told(median: Median) -> str:
    return f"{median.median:.2f} ({median.low:.2f} to {median.high:.2f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description="Measure the CPU cost of each preset.")
    parser.add_argument("--photos", type=Path, required=True, help="folder of photos")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=2, help="batches in each round")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, help="CPU threads; by default one per core")
    parser.add_argument("--only", nargs="+", choices=presets.__all__, default=presets.__all__)
    parser.add_argument("--json", type=Path, help="JSON file to write the figures to")
    options = parser.parse_args(arguments)

    machine, manifest = Machine.here(), photos(options.photos)
    if len(manifest) < options.batch_size:
        parser.error(f"{len(manifest)} images fill no batch of {options.batch_size}")
    why = by_torchvision.refusal()
    absent = {TORCHVISION: why} if why else {}
    planning = plans(options.rounds, options.only)
    costs: list[Cost] = []
    for preset in options.only:
        costs += measure(
            manifest,
            preset,
            batch_size=options.batch_size,
            batches=options.batches,
            rounds=options.rounds,
            threads=options.threads or machine.cores,
            absent=absent,
            say=print,
        )
    result = Result(machine, len(manifest), options.batch_size, costs, planning, absent)
    print(f"\n{machine}\n{table(result)}")
    if options.json is not None:
        result.save(options.json)


if __name__ == "__main__":
    main()
