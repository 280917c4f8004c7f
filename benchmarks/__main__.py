"""Compare gpufeed with other loaders at the same work, in one run.

    python -m benchmarks --photos DIR --out report/

Real photos, synthetic birds, or both are first brought to NABirds' distribution of sizes. Each
contender is checked, then all take turns. The figures are written as JSON, and a table, plots and a
page are made from them.
"""

from __future__ import annotations

import argparse
import itertools
import math
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.compare import report
from benchmarks.compare.data import SYNTHETIC, VARIANTS, prepare
from benchmarks.compare.results import Comparison
from benchmarks.compare.run import compare
from benchmarks.compare.work import PRESETS, Work
from benchmarks.machine import Machine
from gpufeed.tools.synth import write_nabirds


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--photos", type=Path, help="folder of real JPEGs")
    parser.add_argument(
        "--synthetic",
        type=_count,
        metavar="BIRDS",
        help="number of synthetic images, in addition or alone",
    )
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder for the report")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--work", nargs="+", default=["train"], choices=PRESETS)
    parser.add_argument("--batch-sizes", nargs="+", type=_count, default=[64, 256])
    parser.add_argument("--pictures", type=_count, default=1024, help="number of images to prepare")
    parser.add_argument("--rounds", type=_count, default=5)
    parser.add_argument("--images", type=_count, default=1024, help="images timed in each round")
    parser.add_argument("--only", nargs="+", default=[], help="parts of contenders' names")
    parser.add_argument("--cold", action="store_true", help="also measure without the page cache")
    parser.add_argument(
        "--consumer",
        type=float,
        metavar="RATE",
        help="also measure the waiting of a consumer of RATE images/s",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    options = parser.parse_args(arguments)
    if options.photos is None and options.synthetic is None:
        parser.error("give --photos DIR, --synthetic BIRDS, or both")
    if options.consumer is not None and not 0 < options.consumer < math.inf:
        parser.error(f"--consumer is {options.consumer}; it must be a number above 0")
    if (most := max(options.batch_sizes)) > options.pictures:
        parser.error(f"{options.pictures} images fill no batch of {most}; raise --pictures")

    machine = Machine.here()
    device = options.device
    if device == "auto":
        device = "cuda" if machine.gpu else "cpu"
    options.out.mkdir(parents=True, exist_ok=True)
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, source, variant in _sources(options, Path(scratch)):
            folder = Path(scratch) / name.replace(" ", "-")
            names = prepare(source, folder, variant, options.pictures)
            for preset, batch_size in itertools.product(options.work, options.batch_sizes):
                work = Work(
                    name=name,
                    root=str(folder),
                    paths=tuple(names),
                    batch_size=batch_size,
                    size=224,
                    device=device,
                    cores=machine.cores,
                    preset=preset,
                    cold=options.cold,
                )
                batches = max(options.images // batch_size, 2)
                results.append(
                    compare(
                        work,
                        rounds=options.rounds,
                        batches=batches,
                        only=options.only,
                        consumer=options.consumer,
                        say=lambda text: print(text, flush=True),
                    )
                )
    found = Comparison(machine, results)
    found.save(options.out / "comparison.json")
    report.write(found, options.out)
    print((options.out / "comparison.md").read_text())


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


_count.__name__ = "integer"  # the name in argparse's errors


def _sources(options: argparse.Namespace, scratch: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield each set of images: its name, the folder it is made of, and its variant."""
    if options.photos is not None:
        for variant in options.variants:
            yield variant, options.photos, variant
    if options.synthetic is not None:
        birds = write_nabirds(scratch / "birds", images=options.synthetic)
        for variant in options.variants:
            yield f"{SYNTHETIC} {variant}", birds, variant


if __name__ == "__main__":
    # Contenders that are stopped would stay so forever if this process were killed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
