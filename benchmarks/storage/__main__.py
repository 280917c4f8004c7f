"""Measure tiers in front of a slow store.

    python -m benchmarks.storage --simulate --out DIR
    python -m benchmarks.storage --out DIR

The simulation tells how much of an epoch the store still has to give, by the size of the tier in
each node, the number of nodes and of records: with gpufeed's policy, with "least recently used",
and with the best that any cache in the node could do. See `simulate.py`. Without it, a loader is
fed from a store that is made slow: see `real.py`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.machine import Machine
from benchmarks.storage.plot import plot
from benchmarks.storage.real import run
from benchmarks.storage.simulate import Case, simulate

RECORDS = (1_300_000, 14_000_000, 1_000_000_000)
NODES = (1, 4, 16, 64, 256, 1024)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
EPOCHS = 90
USES = 60_000
"""Uses of a simulated run, about: the sample of records follows from it."""
IMAGE_BYTES = 110_000
"""Of an image of ImageNet, on average."""


def run_simulation(out: Path) -> None:
    """Simulate all cases, print a table, and write it and a plot to a folder."""
    cases: list[Case] = []
    print(
        "| records | nodes | room, % | LRU, TB | gpufeed, TB | least possible, TB | an epoch, TB |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for records in RECORDS:
        for nodes in NODES:
            sampled = max(USES * nodes // EPOCHS, 2_000)
            for case in simulate(records, nodes, SHARES, EPOCHS, sampled):
                cases.append(case)
                whole = records * IMAGE_BYTES / 1e12
                figures = [whole * each for each in (case.lru, case.clairvoyant, case.bound, 1)]
                print(
                    f"| {records:,} | {nodes:,} | {100 * case.share:g} | "
                    + " | ".join(f"{each:,.4g}" for each in figures)
                    + " |",
                    flush=True,
                )
    out.mkdir(parents=True, exist_ok=True)
    rows = [asdict(case) for case in cases]
    (out / "simulation.json").write_text(json.dumps(rows, indent=1) + "\n")
    (out / "simulation.png").write_bytes(plot(cases))


def feed(given: argparse.Namespace) -> None:
    """Feed from a slow store, print a table, and write it to a folder."""
    print("| room, % | feed | images/s | fetched, % | hits, % | CPU ms/image | first epoch |")
    print("|--:|---|--:|--:|--:|--:|--:|")
    results = []
    for share in given.shares:
        for each in run(
            given.images,
            given.length,
            share,
            given.latency / 1e3,
            given.rate * 1e6,
            given.epochs,
            given.work / 1e3,
            given.rounds,
        ):
            results.append({"share": share, **asdict(each)})
            print(
                f"| {100 * share:g} | {each.name} | {each.images_per_second:,.0f} "
                f"| {100 * each.fetched:.0f} | {100 * each.hits:.0f} | {each.cpu_ms:.2f} "
                f"| {each.first:,.0f} |",
                flush=True,
            )
    given.out.mkdir(parents=True, exist_ok=True)
    kept = {"machine": asdict(Machine.here()), "options": vars(given), "results": results}
    (given.out / "real.json").write_text(json.dumps(kept, indent=1, default=str) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.storage", description=__doc__)
    parser.add_argument("--simulate", action="store_true", help="simulate, rather than feed")
    parser.add_argument("--out", type=Path, required=True, help="folder for figures and plots")
    parser.add_argument("--images", type=int, default=960)
    parser.add_argument("--length", type=int, default=50_000, help="bytes of an image")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.25, 0.5], help="of the data")
    parser.add_argument("--latency", type=float, default=20, help="of the store, in ms")
    parser.add_argument("--rate", type=float, default=10, help="of the store, in MB/s")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=float, default=0, help="of the consumer, in ms a batch")
    given = parser.parse_args(arguments)
    if given.simulate:
        run_simulation(given.out)
    else:
        feed(given)


if __name__ == "__main__":
    main()
