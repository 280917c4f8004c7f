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
import importlib.metadata
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from benchmarks.machine import Machine
from benchmarks.storage.feeds.feed import Feed
from benchmarks.storage.plot import plot
from benchmarks.storage.real import FEEDS, Options, Turn, run
from benchmarks.storage.report import figures, first_epochs, table
from benchmarks.storage.simulate import Case, simulate

RECORDS = (1_300_000, 14_000_000, 1_000_000_000)
NODES = (1, 4, 16, 64, 256, 1024)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
EPOCHS = 90
USES = 60_000
"""Uses of a simulated run, about: the sample of records follows from it."""
LOCAL = 1_000
"""Records that stand for a node's own."""
IMAGE_BYTES = 110_000
"""Of an image of ImageNet, on average."""
TRAINED, RATE = 20_000, 1e9
"""Images/s that a node trains on, and bytes per second that the store gives to each node."""


def waited(fetched: float) -> float:
    """Return the share of time in which a node waits, if it reads this share of its images.

    Reads and training overlap, so that the slower of both decides.
    """
    return max(0.0, 1 - RATE / (TRAINED * IMAGE_BYTES) / max(fetched, 1e-9))


def run_simulation(out: Path) -> None:
    """Simulate all cases, print a table, and write it and a plot to a folder."""
    cases: list[Case] = []
    print(
        "| records | nodes | order | room, % | LRU, TB | gpufeed, TB | least possible, TB "
        "| an epoch, TB | LRU waits, % | gpufeed waits, % | without waits, % |"
    )
    print("|--:|--:|---|" + "--:|" * 8)
    for local in (False, True):
        # Where nodes have records of their own, the number of records changes nothing.
        for records in RECORDS[:1] if local else RECORDS:
            for nodes in NODES:
                sampled = LOCAL if local else max(USES * nodes // EPOCHS, 2_000)
                for case in simulate(records, nodes, SHARES, EPOCHS, sampled, local=local):
                    cases.append(case)
                    print(_line(case), flush=True)
    out.mkdir(parents=True, exist_ok=True)
    rows = [asdict(case) for case in cases]
    (out / "simulation.json").write_text(json.dumps(rows, indent=1) + "\n")
    (out / "simulation.png").write_bytes(plot(cases))


def _line(case: Case) -> str:
    whole = case.records * IMAGE_BYTES / 1e12
    figures = [f"{whole * each:,.4g}" for each in (case.lru, case.clairvoyant, case.bound, 1)]
    waits = [f"{100 * waited(each):.0f}" for each in (case.lru, case.clairvoyant, 1)]
    order = "node-local" if case.local else "full"
    return (
        f"| {case.records:,} | {case.nodes:,} | {order} | {100 * case.share:g} | "
        + " | ".join(figures + waits)
        + " |"
    )


def feed(options: Options, names: Sequence[str], out: Path) -> None:
    """Feed from a slow store in turns, print a table, and write all turns to a folder."""
    feeds = []
    for each in FEEDS:
        if missing := each.missing():
            print(f"{each.name} is absent: {missing} is not installed")
        elif each.name in names or not names:
            feeds.append(each)
    turns: list[Turn] = []
    load: list[float] = []
    out.mkdir(parents=True, exist_ok=True)
    for turn in run(options, feeds):
        turns.append(turn)
        load.append(os.getloadavg()[0])
        speeds = ", ".join(f"{options.images / epoch.seconds:.0f}" for epoch in turn.epochs)
        print(f"{turn.name}, {100 * turn.share:g} %: {speeds} images/s", flush=True)
        _keep(options, feeds, turns, load, out)
    print("\n" + table([*figures(turns, options.images)]))
    if first := first_epochs(turns, "gpufeed", "gpufeed, no tier"):
        print(
            f"\nimages/s of gpufeed's first epoch by those without a tier: {first.median:.3f} "
            f"({first.low:.3f} to {first.high:.3f}, {100 * first.coverage:.0f} %)"
        )
    print(f"load of the machine: {min(load):.1f} to {max(load):.1f}")


def _keep(
    options: Options, feeds: Sequence[Feed], turns: list[Turn], load: list[float], out: Path
) -> None:
    """Write what there is so far."""
    first = first_epochs(turns, "gpufeed", "gpufeed, no tier")
    kept = {
        "machine": asdict(Machine.here()),
        "versions": {each.package: importlib.metadata.version(each.package) for each in feeds},
        "load": load,
        "options": asdict(options),
        "figures": [asdict(each) for each in figures(turns, options.images)],
        "first_epoch": first and asdict(first),
        "turns": [asdict(turn) for turn in turns],
    }
    (out / "real.json").write_text(json.dumps(kept, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.storage", description=__doc__)
    parser.add_argument("--simulate", action="store_true", help="simulate, rather than feed")
    parser.add_argument("--out", type=Path, required=True, help="folder for figures and plots")
    parser.add_argument("--feeds", nargs="+", default=[], help="names; all by default")
    parser.add_argument("--images", type=int, default=800)
    parser.add_argument("--length", type=int, default=50_000, help="bytes of an image")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.25, 0.5], help="of the data")
    parser.add_argument("--latency", type=float, default=20, help="of the store, in ms")
    parser.add_argument("--rate", type=float, default=10, help="of the store, in MB/s")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=float, default=0, help="of the consumer, in ms a batch")
    given = parser.parse_args(arguments)
    if given.simulate:
        run_simulation(given.out)
        return
    options = {field.name: getattr(given, field.name) for field in fields(Options)}
    feed(Options(**options), given.feeds, given.out)


if __name__ == "__main__":
    main()
