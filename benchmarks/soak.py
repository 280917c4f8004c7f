"""Test in long runs whether memory, threads or files grow, or speed falls.

    python -m benchmarks.soak --batches 20000
    python -m benchmarks.soak --epochs 200

The first feeds batches of small images from one loader. The second feeds epochs of a small set,
with a new loader, iterator and state for each. `--bad SHARE` truncates that share of the files, and
substitutes take their place. Some 400 samples are taken on the way (`--looks`), or one after each
epoch if there are fewer: resident memory, threads, file descriptors, bytes in /dev/shm (of all
processes), CPU time and the rate. After the first twentieth, memory may grow by at most 1 %
(`--growth`), descriptors and /dev/shm not at all, and threads by the number of reading threads,
which start when files are slow; a batch of the last tenth may take 5 % more CPU time than one after
the first twentieth, and the rate may be 5 % lower (`--slower`; inf for no limit, in short runs).
The exit code is 1 if something grew. CPU time and rate are relative to plain decode at each sample,
since other processes on the machine slow that down too.

malloc is made to give back freed memory by setting MALLOC_MMAP_THRESHOLD_ to its initial value.
With malloc's defaults (`--as-it-is`) it raises that by itself and keeps varying amounts of freed
memory, so resident memory goes up and down by some per cent. Memory that it would keep of blocks
above that size is invisible in the first setting.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
from PIL import Image

import gpufeed
from benchmarks.machine import Machine
from gpufeed._util.progress import progress
from gpufeed.engine.device import resolve_device
from gpufeed.source.threads import THREADS
from gpufeed.tools.plain_decode import PlainDecode
from gpufeed.tools.quiet import wait_until_quiet

_SIDE = 32
"""Pixels; so small that one batch more under way at a time is little beside 1 % of all memory."""
_PICTURES = 2048
_FEW = 1024
_BATCH = 64
_LOOKS = 400
_FEWEST = 30
_PLAIN, _TIMES = 1000, 4
_WARM = 0.05
_GROWTH = 0.01
_SLOWER = 0.05
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 17)}
_SHARED = Path("/dev/shm")  # noqa: S108 - read, not written


@dataclass(frozen=True)
class Look:
    """What was seen at one time.

    Attributes:
        batches: fed so far.
        seconds: spent on them, the looks not counted.
        cpu_seconds: likewise, of all threads.
        plain_seconds: plain decode of some images took now.
        plain_cpu_seconds: likewise, of all threads.
        rss_mib: resident memory, MiB.
        threads: of the process, Python's or not.
        descriptors: open files.
        shm_bytes: what is in /dev/shm, of all processes.
    """

    batches: int
    seconds: float
    cpu_seconds: float
    plain_seconds: float
    plain_cpu_seconds: float
    rss_mib: float
    threads: int
    descriptors: int
    shm_bytes: int


class Watch:
    """Looks at this process now and then, and takes the time between.

    Args:
        plain: work that always takes as long, but for what else the machine does.
    """

    def __init__(self, plain: Callable[[], object]) -> None:
        self._plain = plain
        self._seconds = self._cpu_seconds = 0.0
        self._go_on()

    def _go_on(self) -> None:
        self._began, self._cpu_began = time.perf_counter(), time.process_time()

    def look(self, batches: int) -> Look:
        """Look, once all that may be begun ahead is done: as much each time."""
        self._seconds += time.perf_counter() - self._began
        self._cpu_seconds += wait_until_quiet() - self._cpu_began
        self._go_on()
        self._plain()
        plain = time.perf_counter() - self._began, time.process_time() - self._cpu_began
        # DALI leaves what it wrote a graph down with to the collector, which comes when it likes.
        # That nothing of a batch or a loader of gpufeed's is left to it, tests see to.
        gc.collect()
        status = Path("/proc/self/status").read_text().splitlines()
        values = dict(line.split(":", 1) for line in status)
        found = Look(
            batches,
            self._seconds,
            self._cpu_seconds,
            *plain,
            int(values["VmRSS"].split()[0]) / 1024,
            int(values["Threads"]),
            len(list(Path("/proc/self/fd").iterdir())),
            _shared_bytes(),
        )
        self._go_on()
        return found


def _shared_bytes() -> int:
    found = 0
    for entry in _SHARED.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process's, and gone again
            found += entry.stat().st_size if entry.is_file() else 0
    return found


def write_pictures(folder: Path, count: int, bad: float) -> gpufeed.Manifest:
    """Write small JPEGs of several sizes, a share of them cut off, and list them."""
    drawn = np.random.default_rng(0)
    rows = []
    for number in range(count):
        height, width = drawn.integers(_SIDE, 2 * _SIDE, 2).tolist()
        levels = drawn.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        path = folder / f"{number:05}.jpg"
        Image.fromarray(levels).resize((width, height)).save(path)
        if number < bad * count:
            path.write_bytes(path.read_bytes()[:200])
        rows.append((path.name, number % 10, width, height))
    schema = {"path": pl.String, "label": pl.Int32, "width": pl.Int32, "height": pl.Int32}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return gpufeed.Manifest(frame, folder, [f"class {number}" for number in range(10)])


def make_loader(manifest: gpufeed.Manifest) -> gpufeed.Loader:
    """A training feed of small images."""
    return gpufeed.Loader(
        manifest,
        sampler=gpufeed.IndexSampler(len(manifest), shuffle=True, seed=0),
        transforms=gpufeed.presets.train(_SIDE),
        batch_size=_BATCH,
        device="cpu",
        on_error="substitute",
        max_failures=1.0,
    )


def by_batches(manifest: gpufeed.Manifest, count: int) -> Iterator[int]:
    """Feed one loader on and on."""
    with make_loader(manifest) as loader:
        fed = 0
        while fed < count:
            for _ in loader:
                fed += 1
                yield fed
                if fed == count:
                    break


def by_epochs(manifest: gpufeed.Manifest, count: int) -> Iterator[int]:
    """Feed epochs, each by a loader of its own that goes on from the last one's state."""
    state, fed = None, 0
    for _ in range(count):
        with make_loader(manifest) as loader:
            if state is not None:
                loader.load_state_dict(state)
            for _ in loader:
                fed += 1
                yield fed
            state = loader.state_dict()


def soak(fed: Iterator[int], total: int, every: int, plain: Callable[[], object]) -> list[Look]:
    """Feed it all, and look now and then."""
    looks, watch = [], Watch(plain)
    with progress("Soaking", total, unit="batches") as done:
        for batches in fed:
            done(1)
            if batches % every == 0:
                looks.append(watch.look(batches))
    return looks


def judge(looks: Sequence[Look]) -> dict[str, float]:
    """Return what grew, from the tenth after the first twentieth to the last.

    "resident" memory, "cpu" time of a batch and the "rate" as shares, others as they are counted.
    """
    (begun, ended), (early, late) = _tenths(looks), _tenths(list(itertools.pairwise(looks)))
    # Medians of a tenth each: what is under way differs a little from look to look.
    counted = {
        name: _middle(ended, name) - _middle(begun, name)
        for name in ("threads", "descriptors", "shm_bytes")
    }
    return {
        "resident": _middle(ended, "rss_mib") / _middle(begun, "rss_mib") - 1,
        **counted,
        "cpu": _each(late, "cpu_seconds") / _each(early, "cpu_seconds") - 1,
        "rate": _each(early, "seconds") / _each(late, "seconds") - 1,
    }


def _tenths(looks: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """The tenth after the first twentieth, and the last."""
    warm, tenth = max(int(_WARM * len(looks)), 1), max(len(looks) // 10, 1)
    return looks[warm : warm + tenth], looks[-tenth:]


def _middle(looks: Sequence[Look], name: str) -> float:
    return float(median(getattr(each, name) for each in looks))


def _each(steps: Sequence[tuple[Look, Look]], name: str) -> float:
    """What a batch takes between one look and the next, as a share of plain decode beside it."""
    plain = f"plain_{name}"
    return float(
        median(
            (getattr(b, name) - getattr(a, name))
            / (b.batches - a.batches)
            / ((getattr(a, plain) + getattr(b, plain)) / 2)
            for a, b in steps
        )
    )


def broken(grew: dict[str, float], growth: float, slower: float) -> list[str]:
    """The names of what grew too much.

    Args:
        grew: from `judge`.
        growth: the share by which memory may.
        slower: the share by which a batch's CPU time may, and the rate may fall.
    """
    # Those who read begin when files are slow to come for the first time, and stay.
    allowed = {
        "resident": growth,
        "threads": THREADS,
        "descriptors": 0,
        "shm_bytes": 0,
        "cpu": slower,
    }
    found = [name for name, most in allowed.items() if grew[name] > most]
    return [*found, "rate"] if -grew["rate"] > slower else found


def plot(looks: Sequence[Look], title: str, growth: float, path: Path) -> None:
    """Draw memory, near what it may be, and CPU time over the batches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    batches = [each.batches for each in looks]
    begun, ended = _tenths(looks)
    base = _middle(begun, "rss_mib")
    above.fill_between(batches[len(looks) - len(ended) - 1 :], base, base * (1 + growth), alpha=0.3)
    above.plot(batches, [each.rss_mib for each in looks], color="#0072b2")
    above.set_ylabel("resident memory, MiB")
    above.margins(y=0.2)
    told = f"{base:.1f} MiB after the first {_WARM:.0%}; shaded: where the last tenth may be"
    above.text(0.01, 0.95, told, transform=above.transAxes, va="top", color="#555555")
    above.set_title(title, loc="left")
    steps = list(itertools.pairwise(looks))
    spent = [_each([step], "cpu_seconds") * _PLAIN * _TIMES / _BATCH for step in steps]
    below.plot(batches[1:], spent, color="#d55e00")
    below.set_ylabel("CPU time an image, plain decode is 1")
    below.set_ylim(0, 1.2 * max(spent))
    below.set_xlabel("batches")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def _every(
    parser: argparse.ArgumentParser, batches: int | None, epochs: int | None, looks: int
) -> int:
    """How many batches there are from look to look: whole epochs, for each to have a beginning."""
    one = 1 if batches is not None else _FEW // _BATCH
    counted = batches if batches is not None else epochs or 0
    for few, what in ((counted, ""), (looks, " looks")):
        if few < _FEWEST:
            parser.error(f"{few}{what} are too few to tell what grows; take {_FEWEST} or more")
    return one * (counted // looks or 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--batches", type=int, help="number of batches, from one loader")
    how.add_argument("--epochs", type=int, help="number of epochs, each with a new loader")
    parser.add_argument("--bad", type=float, default=0.0, help="share of bad files")
    parser.add_argument(
        "--growth",
        type=float,
        default=_GROWTH,
        help="share by which resident memory may grow",
    )
    parser.add_argument(
        "--slower",
        type=float,
        default=_SLOWER,
        help="share by which CPU time may grow and the rate may fall; inf for no limit",
    )
    parser.add_argument("--looks", type=int, default=_LOOKS, help="approximate number of samples")
    parser.add_argument("--as-it-is", action="store_true", help="use malloc's defaults")
    parser.add_argument("--out", type=Path, help="folder for a JSON file and a plot")
    given = parser.parse_args(arguments)
    every = _every(parser, given.batches, given.epochs, given.looks)
    wanted = {} if given.as_it_is else _MALLOC
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        again = sys.argv[1:] if arguments is None else arguments
        command = [sys.executable, "-m", "benchmarks.soak", *again]
        return subprocess.run(command, env={**os.environ, **wanted}, check=False).returncode
    with tempfile.TemporaryDirectory() as name:
        if given.batches is not None:
            title, total = f"{given.batches:,} batches of one loader", given.batches
            manifest = write_pictures(Path(name), _PICTURES, given.bad)
            fed = by_batches(manifest, total)
        else:
            title = f"{given.epochs:,} epochs, each with a loader of its own"
            total = given.epochs * (_FEW // _BATCH)
            manifest = write_pictures(Path(name), _FEW, given.bad)
            fed = by_epochs(manifest, given.epochs)
        with PlainDecode(manifest.source, resolve_device("cpu")) as decode:
            keys = np.arange(len(manifest))[-_PLAIN:]
            looks = soak(fed, total, every, lambda: decode.run([keys] * _TIMES))
    grew = judge(looks)
    said = f", {given.bad:.0%} of the files bad" if given.bad else ""
    said += ", malloc as it is" if given.as_it_is else ""
    last = looks[-1]
    print(
        f"{title}{said}: {last.rss_mib:,.0f} MiB resident, {last.threads} threads, "
        f"{last.descriptors} descriptors at the end; since the first {_WARM:.0%} resident "
        f"{grew['resident']:+.2%}, threads {grew['threads']:+g}, descriptors "
        f"{grew['descriptors']:+g}, /dev/shm {grew['shm_bytes']:+g} bytes; in the last tenth CPU "
        f"time {grew['cpu']:+.1%}, rate {grew['rate']:+.1%}"
    )
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        kind = "batches" if given.batches is not None else "epochs"
        kind += "-as-it-is" if given.as_it_is else ""
        kept = {
            "machine": asdict(Machine.here()),
            "malloc": {name: os.environ.get(name) for name in _MALLOC},
            "title": title + said,
            "grew": grew,
            "looks": [asdict(each) for each in looks],
        }
        (given.out / f"{kind}.json").write_text(json.dumps(kept, indent=1))
        plot(looks, title + said, given.growth, given.out / f"{kind}.png")
    wrong = broken(grew, given.growth, given.slower)
    if wrong:
        print(f"too much: {', '.join(wrong)}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
