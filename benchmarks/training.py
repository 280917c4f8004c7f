"""Measure how close each loader brings a training step to its speed without any loader.

    python -m benchmarks.training --photos DIR --out DIR

A model is trained (forward, backward, a step of SGD) on synthetic batches that are on its device
already, which is the ceiling, and then on batches of gpufeed and of CPU loaders, each in its own
process, in turns. On a GPU it is ResNet-50 in bfloat16, or with `--model vit_s` a vision
transformer, which has not been run yet; on the CPU it is a small model. There model and loader
share the cores, so no loader can reach the ceiling, and the cost of a loader appears in longer
steps more than in waiting.

Figures are written as JSON, with the time and the waiting of each step, and plotted; a table is
printed. `benchmarks/step/trainee.py` describes how waiting is separated from a GPU's work.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.compare.data import VARIANTS, prepare
from benchmarks.compare.work import Work
from benchmarks.machine import Machine
from benchmarks.step import report
from benchmarks.step.feeds import choose
from benchmarks.step.models import MODELS
from benchmarks.step.outcome import Outcome, Setting
from benchmarks.step.turns import train
from gpufeed._util.progress import progress

_USUAL = {
    "cuda": {"model": "resnet50", "batch_size": 128, "size": 224, "steps": 60, "pictures": 2048},
    "cpu": {"model": "small", "batch_size": 32, "size": 128, "steps": 20, "pictures": 1024},
}
"""What is taken where no option says otherwise; epochs of many batches, as real ones are."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepare, train in turns, write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--photos", type=Path, required=True, help="folder of real JPEGs")
    parser.add_argument("--out", type=Path, required=True, help="folder for the report")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--model", choices=list(MODELS))
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--size", type=int, help="side of the fed images in pixels")
    parser.add_argument("--steps", type=int, help="steps timed in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[], help="parts of the feeds' names")
    parser.add_argument("--variant", choices=VARIANTS, default="originals")
    parser.add_argument("--pictures", type=int, help="number of images to prepare")
    options = parser.parse_args(arguments)

    machine = Machine.here()
    device = options.device
    if device == "auto":
        device = "cuda" if machine.gpu else "cpu"
    for name, usual in _USUAL[device].items():
        if getattr(options, name) is None:
            setattr(options, name, usual)
    # The model normalises over a batch, and halves its images five times.
    for name, least in (("batch_size", 2), ("size", 32), ("steps", 1), ("rounds", 1)):
        if (given := getattr(options, name)) < least:
            parser.error(f"--{name.replace('_', '-')} is {given}; give {least} or more")
    if options.pictures < options.batch_size:
        parser.error(
            f"--pictures is {options.pictures}, less than one batch of {options.batch_size}"
        )
    try:
        feeds = choose(options.only, machine.cores)
    except ValueError as error:
        parser.error(f"--only: {error}")

    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        names = prepare(options.photos, Path(folder), options.variant, options.pictures)
        work = Work(
            options.variant,
            folder,
            tuple(names),
            options.batch_size,
            options.size,
            device,
            machine.cores,
        )
        turns = (options.rounds + 1) * len(feeds)
        with progress("training in turns", turns) as advance:
            fed, absent = train(
                work,
                feeds,
                model=options.model,
                rounds=options.rounds,
                steps=options.steps,
                say=lambda text: print(text, flush=True),
                advance=advance,
            )
    setting = Setting(
        model=options.model,
        precision="bfloat16" if device == "cuda" else "float32",
        variant=options.variant,
        pictures=len(names),
        batch_size=options.batch_size,
        size=options.size,
        steps=options.steps,
        rounds=options.rounds,
        device=device,
        cores=machine.cores,
    )
    outcome = Outcome(asdict(machine), setting, fed, absent)
    outcome.save(options.out / "training.json")
    report.plot(outcome, options.out / "training.png")
    print(machine)
    report.show(outcome)


if __name__ == "__main__":
    # Whoever has no turn is stopped, and would stay so for ever if this process just ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
