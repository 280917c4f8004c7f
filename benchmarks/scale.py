"""Measure what long lists cost: opening, fingerprint, loader, planning, and memory.

The list has made-up rows and no images but the eight that `read_table` looks at. It is written a
piece at a time, and each figure is measured in a process of its own. Memory is the anonymous memory
of that process, its own beside the file that all processes share.

    python -m benchmarks.scale --records 1e6 1e7 1e8 --json FILE
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image

import gpufeed
from benchmarks.machine import Machine
from gpufeed._util.progress import progress

_PIECE = 1 << 20
_FOLDERS = 10_000
_CLASSES = 10_000
_BATCH = 256
_PLANS = 200


def rows(first: int, count: int, *, boxes: bool) -> pl.DataFrame:
    """Return made-up rows of a list, a function of their numbers alone."""
    numbers = np.arange(first, first + count)
    drawn = np.random.default_rng(first)
    width, height = drawn.integers(100, 1000, (2, count), dtype=np.int32)
    frame = pl.DataFrame(
        {
            "path": numbers,
            "label": (numbers % _CLASSES).astype(np.int32),
            "width": width,
            "height": height,
        }
    )
    if boxes:
        zeros = np.zeros(count, np.int32)
        box = {"box_x": zeros, "box_y": zeros, "box_width": width // 2, "box_height": height // 2}
        frame = frame.with_columns(**{name: pl.Series(values) for name, values in box.items()})
    number = pl.col("path")
    folder = (number % _FOLDERS).cast(pl.String).str.zfill(5)
    return frame.with_columns(pl.format("{}/{}.jpg", folder, number.cast(pl.String).str.zfill(9)))


def write_list(file: Path, count: int, *, boxes: bool) -> None:
    """Write a list of images, and those of them that `read_table` looks at, beside it."""
    import pyarrow as pa

    looked_at = np.unique(np.linspace(0, count - 1, 8).astype(np.int64))
    newest = pl.CompatLevel.newest()
    schema = rows(0, 1, boxes=boxes).to_arrow(compat_level=newest).schema
    with (
        file.open("wb") as opened,
        pa.ipc.new_file(opened, schema) as writer,
        progress(f"Writing {count:,} rows", count, unit="rows") as done,
    ):
        for first in range(0, count, _PIECE):
            piece = rows(first, min(_PIECE, count - first), boxes=boxes)
            writer.write_table(piece.to_arrow(compat_level=newest))
            for number in looked_at[(looked_at >= first) & (looked_at < first + _PIECE)]:
                path, _, width, height, *_ = piece.row(int(number) - first)
                (file.parent / path).parent.mkdir(exist_ok=True)
                Image.new("RGB", (width, height)).save(file.parent / path)
            done(piece.height)


def own_megabytes() -> float:
    """Return the anonymous memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith("RssAnon"))
    return int(found) / 1024


@contextmanager
def measured(figures: dict[str, float], name: str) -> Iterator[None]:
    """Add the seconds, CPU seconds, and memory during and after a block to some figures."""
    ended = threading.Event()
    peak = [own_megabytes()]

    def watch() -> None:
        while not ended.wait(0.02):
            peak.append(max(peak.pop(), own_megabytes()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began, cpu = time.perf_counter(), time.process_time()
    yield
    figures[f"{name}_s"] = time.perf_counter() - began
    figures[f"{name}_cpu_s"] = time.process_time() - cpu
    ended.set()
    watcher.join()
    figures[f"{name}_mb"], figures[f"{name}_peak_mb"] = own_megabytes(), peak[0]


def open_first(table: Path, figures: dict[str, float]) -> None:
    """Read the table, which checks all rows, and save the manifest."""
    with measured(figures, "open"):
        manifest = gpufeed.read_table(table)
    with measured(figures, "save"):
        manifest.save(table.with_suffix(".manifest"))


def open_again(table: Path, figures: dict[str, float]) -> None:
    """Read the saved manifest."""
    with measured(figures, "again"):
        gpufeed.read_manifest(table.with_suffix(".manifest"))


def hash_rows(table: Path, figures: dict[str, float]) -> None:
    """Compute the fingerprint."""
    manifest = gpufeed.read_manifest(table.with_suffix(".manifest"))
    manifest._fingerprint = None
    with measured(figures, "fingerprint"):
        manifest.fingerprint()


def plan(table: Path, figures: dict[str, float]) -> None:
    """Make a loader of the saved manifest, and plan batches all over it."""
    manifest = gpufeed.read_manifest(table.with_suffix(".manifest"))
    with measured(figures, "loader"):
        loader = gpufeed.Loader(manifest, batch_size=_BATCH, device="cpu")
    seconds = []
    with measured(figures, "plans"):
        for step in range(_PLANS):
            began = time.thread_time()
            loader._planner.plan(step)
            seconds.append(time.thread_time() - began)
    figures["plan_first_ms"], figures["plan_ms"] = (
        1e3 * seconds[0],
        1e3 * statistics.median(seconds),
    )
    figures["state_bytes"] = len(loader.get_state())


def select(table: Path, figures: dict[str, float]) -> None:
    """Filter a hundredth of the records."""
    manifest = gpufeed.read_manifest(table.with_suffix(".manifest"))
    with measured(figures, "filter"):
        manifest.filter(pl.col("label") < _CLASSES // 100)


PARTS: dict[str, Callable[[Path, dict[str, float]], None]] = {
    each.__name__: each for each in (open_first, open_again, hash_rows, plan, select)
}


def measure(count: int, folder: Path, *, boxes: bool) -> dict[str, float]:
    """Return the figures of a list of `count` images, made in a folder."""
    table = folder / "list.arrow"
    write_list(table, count, boxes=boxes)
    figures: dict[str, float] = {}
    for part in PARTS:
        command = [sys.executable, "-m", "benchmarks.scale", "--part", part, str(table)]
        ran = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        figures |= json.loads(ran.stdout)
    return figures


COLUMNS = {
    "open": "open",
    "save": "save",
    "again": "open again",
    "fingerprint": "fingerprint",
    "loader": "loader",
    "filter": "filter 1 %",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--records", nargs="+", type=float, default=[1e6, 1e7])
    parser.add_argument("--boxes", action="store_true", help="a box for each image")
    parser.add_argument("--folder", type=Path, help="where to make lists; by default a temporary")
    parser.add_argument("--json", type=Path, help="JSON file to write the figures to")
    parser.add_argument("--part", nargs=2, metavar=("PART", "TABLE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.part is not None:
        figures: dict[str, float] = {}
        PARTS[options.part[0]](Path(options.part[1]), figures)
        print(json.dumps(figures))
        return
    report: dict[str, Any] = {}
    print(f"{Machine.here()}\n\nSeconds (of CPU), and MB of its own that the process then has.\n")
    print(f"| records | {' | '.join(COLUMNS.values())} | plan first, median | state |")
    print("|--:|" + "--:|" * (len(COLUMNS) + 2))
    for count in map(int, options.records):
        with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
            found = report[f"{count}"] = measure(count, Path(scratch), boxes=options.boxes)
        cells = [
            f"{found[f'{name}_s']:.2f} ({found[f'{name}_cpu_s']:.2f}), {found[f'{name}_mb']:,.0f}"
            for name in COLUMNS
        ]
        plans = f"{found['plan_first_ms']:.1f}, {found['plan_ms']:.1f} ms"
        print(f"| {count:,} | {' | '.join(cells)} | {plans} | {found['state_bytes']:.0f} B |")
    if options.json is not None:
        report["machine"] = asdict(Machine.here())
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + os.linesep)


if __name__ == "__main__":
    main()
