"""Long runs: whether anything grows that should not.

    python -m benchmarks.soak --batches 20000
    python -m benchmarks.soak --epochs 200

The first feeds one loader, batch after batch, of small pictures. The second feeds epochs of a
small set, with the loader, its iterator and its state made anew for each. `--bad SHARE` cuts that
share of the files off, which others stand in for. Looked at, a hundred times on the way: memory,
threads, file descriptors, bytes in /dev/shm, and the rate. After the first twentieth nothing may
grow: memory that is held by 1 % of what is resident at most (`--growth`), the others not at all.
Held is what is resident, but for libraries' own pages, which come and go, and for what malloc keeps
free, which goes up and down by chance. How resident memory itself changed is told beside it, and so
is the rate of the last tenth beside the first's, which neighbours make differ. The exit code is 1
where something grew.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
from PIL import Image

import gpufeed
from benchmarks.heap import spare_bytes
from benchmarks.machine import Machine
from benchmarks.quiet import wait_until_quiet
from gpufeed.progress import progress
from gpufeed.storage.readers import THREADS

_SIDE = 64
_PICTURES = 2048
_FEW = 256
_BATCH = 64
_LOOKS = 100
_WARM = 0.05
_GROWTH = 0.01
_SHARED = Path("/dev/shm")  # noqa: S108 - looked at, not written to


@dataclass(frozen=True)
class Look:
    """What was seen at one time.

    Attributes:
        batches: fed so far.
        seconds: spent on them, the looks not counted.
        rss_mib: resident memory, MiB.
        own_mib: of it, what is not read from files, as libraries are; those the system takes out of
            memory and back in as it likes.
        spare_mib: of that, what malloc keeps free, to hand out again.
        threads: of the process, Python's or not.
        descriptors: open files.
        shm_bytes: what is in /dev/shm, of all processes.
    """

    batches: int
    seconds: float
    rss_mib: float
    own_mib: float
    spare_mib: float
    threads: int
    descriptors: int
    shm_bytes: int

    @property
    def held_mib(self) -> float:
        """Memory that is in use."""
        return self.own_mib - self.spare_mib


def look(batches: int, fed_for: float) -> Look:
    """Look at this process, once all that it may begin ahead is done: as much each time."""
    wait_until_quiet()
    gc.collect()
    status = Path("/proc/self/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in status)

    def mib(name: str) -> float:
        return int(values[name].split()[0]) / 1024

    shm = sum(entry.stat().st_size for entry in _SHARED.iterdir() if entry.is_file())
    return Look(
        batches,
        fed_for,
        mib("VmRSS"),
        mib("RssAnon") + mib("VmSwap"),
        spare_bytes() / (1 << 20),
        int(values["Threads"]),
        len(list(Path("/proc/self/fd").iterdir())),
        shm,
    )


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
    """A training feed of small pictures."""
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


def soak(fed: Iterator[int], total: int, every: int) -> list[Look]:
    """Feed it all, and look now and then."""
    looks, fed_for, began = [], 0.0, time.perf_counter()
    with progress("Soaking", total, unit="batches") as done:
        for batches in fed:
            done(1)
            if batches % every == 0:
                fed_for += time.perf_counter() - began
                looks.append(look(batches, fed_for))
                began = time.perf_counter()
    return looks


def judge(looks: Sequence[Look]) -> dict[str, float]:
    """Return what grew from the tenth after the first twentieth to the last tenth.

    Memory as a share of what was resident. Beside it how the rate changed, from the first tenth.
    """
    warm, tenth = max(int(_WARM * len(looks)), 1), max(len(looks) // 10, 1)
    begun, ended = looks[warm : warm + tenth], looks[-tenth:]
    steps = list(itertools.pairwise(looks))
    rates = [(b.batches - a.batches) / (b.seconds - a.seconds) for a, b in steps]
    # Medians of a tenth each: what is under way differs a little from look to look.
    return {
        "held": (_middle(ended, "held_mib") - _middle(begun, "held_mib"))
        / _middle(begun, "rss_mib"),
        "resident": _middle(ended, "rss_mib") / _middle(begun, "rss_mib") - 1,
        "threads": _middle(ended, "threads") - _middle(begun, "threads"),
        "descriptors": _middle(ended, "descriptors") - _middle(begun, "descriptors"),
        "shm_bytes": _middle(ended, "shm_bytes") - _middle(begun, "shm_bytes"),
        "rate": median(rates[-tenth:]) / median(rates[:tenth]) - 1,
    }


def _middle(looks: Sequence[Look], name: str) -> float:
    return float(median(getattr(each, name) for each in looks))


def broken(grew: dict[str, float], growth: float) -> list[str]:
    """The names of what grew too much; `growth` is the share by which memory may."""
    # Those who read begin when files are slow to come for the first time, and stay.
    allowed = {"held": growth, "threads": THREADS, "descriptors": 0, "shm_bytes": 0}
    return [name for name, most in allowed.items() if grew[name] > most]


def plot(looks: Sequence[Look], title: str, path: Path) -> None:
    """Draw memory and rate over the batches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    batches = [each.batches for each in looks]
    above.plot(batches, [each.rss_mib for each in looks], color="#56b4e9", label="resident")
    held = [each.held_mib for each in looks]
    above.plot(batches, held, color="#0072b2", label="of it in use")
    above.set_ylabel("memory, MiB")
    above.set_ylim(bottom=0)
    above.legend(loc="lower right", frameon=False)
    above.set_title(title, loc="left")
    steps = list(itertools.pairwise(looks))
    rates = [_BATCH * (b.batches - a.batches) / (b.seconds - a.seconds) for a, b in steps]
    below.plot(batches[1:], rates, color="#d55e00")
    below.set_ylabel("images/s")
    below.set_ylim(bottom=0)
    below.set_xlabel("batches")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--batches", type=int, help="of one loader")
    how.add_argument("--epochs", type=int, help="each with a loader of its own")
    parser.add_argument("--bad", type=float, default=0.0, help="share of the files that is bad")
    parser.add_argument(
        "--growth",
        type=float,
        default=_GROWTH,
        help="by which share of resident memory what is held may grow",
    )
    parser.add_argument("--out", type=Path, help="folder for a JSON and a picture")
    given = parser.parse_args(arguments)
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
        looks = soak(fed, total, max(total // _LOOKS, 1))
    grew = judge(looks)
    said = f", {given.bad:.0%} of the files bad" if given.bad else ""
    last = looks[-1]
    print(
        f"{title}{said}: {last.held_mib:,.0f} MiB held of {last.rss_mib:,.0f} resident, "
        f"{last.threads} threads, {last.descriptors} descriptors at the end; since the first "
        f"{_WARM:.0%} held {grew['held']:+.2%}, resident {grew['resident']:+.2%}, threads "
        f"{grew['threads']:+g}, descriptors {grew['descriptors']:+g}, /dev/shm "
        f"{grew['shm_bytes']:+g} bytes; rate of the last tenth {grew['rate']:+.1%}"
    )
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        kind = "batches" if given.batches is not None else "epochs"
        kept = {
            "machine": asdict(Machine.here()),
            "title": title + said,
            "grew": grew,
            "looks": [asdict(each) for each in looks],
        }
        (given.out / f"{kind}.json").write_text(json.dumps(kept, indent=1))
        plot(looks, title + said, given.out / f"{kind}.png")
    wrong = broken(grew, given.growth)
    if wrong:
        print(f"grew: {', '.join(wrong)}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
