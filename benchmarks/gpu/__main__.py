"""Settle on a GPU, in about fifteen minutes, what no CPU can tell of gpufeed.

    python -m benchmarks.gpu --out DIR [--photos DIR] [--only STEP ...] [--budget SECONDS]

Each step runs in a process of its own with a time limit, and `results.json` and `summary.md` are
written after every case, so a crash or the end of time loses nothing. With the same folder, the
next run carries on where this one stopped; `--only` runs the named steps anew. `log.txt` has the
end of what the steps printed.

`--device cpu` goes through every step that has a form for the CPU, with the same code.
**It has not been run on a GPU yet.**
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.compare.data import prepare
from benchmarks.gpu.job import Job
from benchmarks.gpu.results import Results
from benchmarks.gpu.runner import run_step
from benchmarks.gpu.steps import STEPS
from gpufeed._util.limits import available_threads
from gpufeed.engine.device import gpu_count
from gpufeed.tools.synth import write_nabirds

_IMAGES = {False: 96, True: 16}
"""Images that are prepared, in a quick run or not; sets that are larger list them repeatedly."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 if something is not in order."""
    names = [step.name for step in STEPS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the report")
    parser.add_argument(
        "--photos", type=Path, help="folder of real JPEGs; otherwise synthetic ones"
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", nargs="+", default=[], choices=names, metavar="STEP")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds for everything")
    parser.add_argument("--quick", action="store_true", help="on little data, to try the program")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not gpu_count():
        parser.error("DALI sees no GPU; try the program with --device cpu")
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:4.0f} s] {text}", flush=True)

    try:
        results = Results(options.out, options.device)
    except ValueError as error:
        parser.error(str(error))
    for name in options.only:
        results.forget(name)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch, "photos")
        count = _IMAGES[options.quick]
        photos = options.photos
        if photos is None:
            photos = write_nabirds(Path(scratch, "birds"), images=count, progress=False)
        prepare(photos, folder, "originals", count)
        say(f"{count} images are ready")
        job = Job(
            device=options.device,
            photos=str(folder),
            out=str(options.out),
            cores=available_threads(),
            quick=options.quick,
        )
        for step in STEPS:
            if step.name in (options.only or names) and not results.complete(step.name):
                run_step(step, job, results, began + options.budget, say)
    results.save()
    print((options.out / "summary.md").read_text())
    return int(bool(results.failures()))


if __name__ == "__main__":
    sys.exit(main())
