"""Measure the cost of bad files: checking all, being prepared for some, and substituting some.

    python -m benchmarks.bad_files --photos DIR

Photos are brought to NABirds' distribution of sizes. These take turns in one process: `gpufeed
check` and plain decode of the same files; an epoch with on_error="raise", one with "substitute",
and one with "substitute" over a copy of the files in which every hundredth is truncated. Figures
are medians over the rounds, with their interval: the CPU time of the process per image, including
prefetched batches, and its ratio to the first's in each round; for check and plain decode also the
rate.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl

import gpufeed
from benchmarks.compare.data import VARIANTS, prepare
from benchmarks.machine import Machine
from gpufeed.engine.device import resolve_device
from gpufeed.tools.check.dataset import check
from gpufeed.tools.median import Median, median_of
from gpufeed.tools.plain_decode import PlainDecode
from gpufeed.tools.quiet import wait_until_quiet

_BATCH = 64
_EVERY = 100
_MAX_PIXELS = 1 << 27

Turn = Callable[[], int]


def epoch_of(manifest: gpufeed.Manifest, on_error: str) -> Turn:
    """An epoch of a loader that is kept."""
    sampler = gpufeed.IndexSampler(len(manifest), shuffle=True, seed=0)
    loader = gpufeed.Loader(
        manifest,
        sampler=sampler,
        batch_size=_BATCH,
        device="cpu",
        on_error=on_error,  # type: ignore[arg-type]
        max_failures=1.0,
    )
    return lambda: sum(len(batch["label"]) for batch in loader)


def measure(photos: Path, variant: str, pictures: int, rounds: int) -> dict[str, dict[str, Median]]:
    """Measure all contenders on one kind of images."""
    with tempfile.TemporaryDirectory() as name:
        whole, damaged = Path(name, "whole"), Path(name, "damaged")
        names = prepare(photos, whole, variant, pictures)
        shutil.copytree(whole, damaged)
        for bad in names[::_EVERY]:
            path = damaged / bad
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 10])
        table = pl.DataFrame({"path": names, "label": [0] * len(names)})
        good = gpufeed.read_table(table, root=whole)
        bad_too = gpufeed.read_table(table, root=damaged)
        keys = [np.arange(len(names))]
        with PlainDecode(good.source, resolve_device("cpu")) as decode:

            def plain() -> int:
                decode.run(keys)
                return len(names)

            def checked() -> int:
                return check(good.frame, whole, max_pixels=_MAX_PIXELS, progress=False).images

            found = in_turns({"plain decode": plain, "gpufeed check": checked}, rounds)
        runs = {
            "on_error raise": epoch_of(good, "raise"),
            "on_error substitute": epoch_of(good, "substitute"),
            "substitute, 1 % bad": epoch_of(bad_too, "substitute"),
        }
        # An epoch begins with what was begun ahead, so that its rate says nothing.
        for name, figures in in_turns(runs, rounds).items():
            found[name] = {figure: figures[figure] for figure in ("cpu_ms", "cpu_of_first")}
        return found


def in_turns(turns: dict[str, Turn], rounds: int) -> dict[str, dict[str, Median]]:
    """Take turns, after a round of warm-up; figures also as parts of the first's of each round."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in turns}
    for number in range(rounds + 1):
        for name, turn in turns.items():
            cpu, began = time.process_time(), time.perf_counter()
            images = turn()
            seconds = time.perf_counter() - began
            spent = 1e3 * (wait_until_quiet() - cpu) / images
            if number:
                found[name].append((images / seconds, spent))
    first = found[next(iter(turns))]
    return {
        name: {
            "cpu_ms": median_of([spent for _, spent in rows]),
            "cpu_of_first": median_of(
                [mine / other for (_, mine), (_, other) in zip(rows, first, strict=True)]
            ),
            "images_per_second": median_of([rate for rate, _ in rows]),
            "rate_of_first": median_of(
                [mine / other for (mine, _), (other, _) in zip(rows, first, strict=True)]
            ),
        }
        for name, rows in found.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.bad_files", description=__doc__)
    parser.add_argument("--photos", type=Path, required=True, help="folder of photos")
    parser.add_argument("--pictures", type=int, default=512, help="number of images to prepare")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="JSON file to write the figures to")
    given = parser.parse_args(arguments)
    results = {}
    for variant in VARIANTS:
        results[variant] = measure(given.photos, variant, given.pictures, given.rounds)
        print(variant)
        for name, figures in results[variant].items():
            told = ", ".join(
                f"{figure} {each.median:,.2f} ({each.low:,.2f} to {each.high:,.2f})"
                for figure, each in figures.items()
            )
            print(f"  {name:22} {told}")
    if given.json is not None:
        machine = asdict(Machine.here())
        kept = {
            variant: {
                name: {figure: asdict(each) for figure, each in row.items()}
                for name, row in found.items()
            }
            for variant, found in results.items()
        }
        given.json.write_text(json.dumps({"machine": machine, "results": kept}, indent=1))


if __name__ == "__main__":
    main()
