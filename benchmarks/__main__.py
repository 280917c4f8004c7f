"""Compare gpufeed with everything people would use instead, at the same work, in one run.

    python -m benchmarks --photos DIR --out report/

Real photos are brought to NABirds' distribution first. Every contender is checked, then all take
turns. The figures are written as JSON; a table, plots and a page are made of them.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.compare import report
from benchmarks.compare.data import VARIANTS, prepare
from benchmarks.compare.run import compare
from benchmarks.compare.work import Work
from benchmarks.machine import Machine


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepare, compare, write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--photos", type=Path, required=True, help="folder of real JPEGs")
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder for the report")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[64, 256])
    parser.add_argument("--pictures", type=int, default=1024, help="how many are made")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=1024, help="timed in each round")
    parser.add_argument("--only", nargs="+", default=[], help="parts of contenders' names")
    parser.add_argument("--cold", action="store_true", help="also without the page cache")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    options = parser.parse_args(arguments)

    machine = Machine.here()
    device = options.device
    if device == "auto":
        device = "cuda" if machine.gpu else "cpu"
    options.out.mkdir(parents=True, exist_ok=True)
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for variant in options.variants:
            folder = Path(scratch) / variant
            names = prepare(options.photos, folder, variant, options.pictures)
            for batch_size in options.batch_sizes:
                work = Work(
                    variant, str(folder), tuple(names), batch_size, 224, device, machine.cores
                )
                batches = max(options.images // batch_size, 2)
                results.append(
                    compare(
                        work,
                        rounds=options.rounds,
                        batches=batches,
                        cold=options.cold,
                        only=options.only,
                        say=lambda text: print(text, flush=True),
                    )
                )
    found = {"machine": asdict(machine), "results": [asdict(result) for result in results]}
    (options.out / "comparison.json").write_text(json.dumps(found, indent=1) + "\n")
    report.write(found, options.out)
    print((options.out / "comparison.md").read_text())


if __name__ == "__main__":
    # Whoever has no turn is stopped, and would stay so for ever if this process just ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
