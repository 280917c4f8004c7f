"""Measure `prepare` beside Pillow by hand in a process pool, and LitData's and FFCV's writers.

    python -m benchmarks.prepare --photos DIR

Photos are brought to NABirds' distribution of sizes. All crop them to a box with a margin, fit them
into squares of 269 pixels, encode them as JPEG of quality 95, and pack them: gpufeed and Pillow
into tar shards, LitData and FFCV, if they are installed, into their own files, with Pillow for the
images (FFCV encodes them itself). They take turns. Figures are medians over the rounds, with their
interval: the CPU time of all processes per image, and images/s; each also as a part of the first's
in each round.

    python -m benchmarks.prepare --kills 20 --to parquet

kills `gpufeed prepare`, with its workers, at that many random moments instead, starts it again each
time, and compares what is there in the end with what one call with one worker writes.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from PIL import Image

import gpufeed
from benchmarks.compare.data import prepare as make_photos
from benchmarks.machine import Machine
from gpufeed.tools.median import Median, median_of
from gpufeed.tools.synth import write_nabirds

_MARGIN, _SIDE, _QUALITY = 0.2, 269, 95
_SHARD = 100

Box = tuple[int, int, int, int]
Row = tuple[str, Box]
"""A file, and x, y, width and height of its box."""


def squared(row: Row) -> Image.Image:
    """Crop one image to its box, and fit it into a square, with Pillow."""
    path, (x, y, width, height) = row
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    across, down = int(width * _MARGIN), int(height * _MARGIN)
    left, top = max(x - across, 0), max(y - down, 0)
    right = min(x + width + across, image.width)
    bottom = min(y + height + down, image.height)
    factor = _SIDE / max(right - left, bottom - top)
    size = int((right - left) * factor), int((bottom - top) * factor)
    cropped = image.crop((left, top, right, bottom)).resize(size, Image.Resampling.BILINEAR)
    square = Image.new("RGB", (_SIDE, _SIDE))
    square.paste(cropped, ((_SIDE - size[0]) // 2, (_SIDE - size[1]) // 2))
    return square


def by_hand(row: Row) -> bytes:
    """Prepare one image with Pillow."""
    buffer = io.BytesIO()
    squared(row).save(buffer, "JPEG", quality=_QUALITY, subsampling="4:2:0")
    return buffer.getvalue()


def by_hand_to_tar(job: tuple[Path, list[Row]]) -> None:
    """Prepare some images with Pillow, and write a shard of them."""
    shard, rows = job
    with tarfile.open(shard, "w") as tar:
        for number, row in enumerate(rows):
            content = by_hand(row)
            member = tarfile.TarInfo(f"{number:06}.jpg")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def with_pillow(rows: list[Row], out: Path, workers: int) -> None:
    """A process pool, which makes a shard at a time."""
    out.mkdir()
    jobs = [
        (out / f"{start:06}.tar", rows[start : start + _SHARD])
        for start in range(0, len(rows), _SHARD)
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context) as pool:
        list(pool.map(by_hand_to_tar, jobs))


def for_litdata(row: Row) -> dict[str, Any]:
    """A sample of LitData: bytes, which it writes as they are."""
    return {"image": by_hand(row)}


def with_litdata(rows: list[Row], out: Path, workers: int) -> None:
    """LitData's own processes and chunks."""
    import litdata

    litdata.optimize(
        fn=for_litdata,
        inputs=rows,
        output_dir=str(out),
        num_workers=workers,
        chunk_bytes="64MB",
        start_method="spawn",
        verbose=False,
    )


class ForFFCV:
    """What FFCV's writer takes: images, which it encodes with OpenCV."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Image.Image]:
        return (squared(self._rows[index]),)


def with_ffcv(rows: list[Row], out: Path, workers: int) -> None:
    """FFCV's own processes, which it forks, and one file."""
    from ffcv.fields import RGBImageField
    from ffcv.writer import DatasetWriter

    out.mkdir()
    multiprocessing.set_start_method("fork", force=True)  # the default, which LitData changes
    fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=_QUALITY)}
    DatasetWriter(str(out / "images.beton"), fields, num_workers=workers).from_indexed_dataset(
        ForFFCV(rows), chunksize=_SHARD
    )
    # It does not wait for them, and their CPU time would not be counted.
    for process in multiprocessing.active_children():
        process.join()


def with_gpufeed(manifest: gpufeed.Manifest, out: Path, workers: int, *, to: str = "tar") -> None:
    """`prepare`."""
    gpufeed.prepare(
        manifest,
        out,
        gpufeed.presets.course_cleaned(),
        to=to,  # type: ignore[arg-type]
        quality=None if to == "raw" else _QUALITY,
        shard_size=_SHARD,
        workers=workers,
        progress=False,
    )


def list_photos(photos: Path, folder: Path, count: int) -> gpufeed.Manifest:
    """Bring photos to NABirds' distribution; a box is half of each image's sides, in the middle."""
    names = make_photos(photos, folder, "originals", count)
    listed = gpufeed.read_table(
        pl.DataFrame({"path": names, "label": [0] * count}), root=folder, progress=False
    )
    halves = [(pl.col(side) // part).alias(f"box_{name}") for side, part, name in _BOX]
    frame = listed.frame.with_columns(halves)
    frame.write_parquet(folder / "photos.parquet")
    return gpufeed.Manifest(frame, folder, listed.classes)


_BOX = (("width", 4, "x"), ("height", 4, "y"), ("width", 2, "width"), ("height", 2, "height"))


def cpu_seconds() -> float:
    """CPU time of this process and of those that it has waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both)


def measure(
    manifest: gpufeed.Manifest, rounds: int, workers: int, folder: Path
) -> dict[str, dict[str, Median]]:
    """Take turns, after a round of warm-up."""
    columns = ["box_x", "box_y", "box_width", "box_height"]
    boxes = manifest.frame.select(columns).rows()
    rows = [
        (str(Path(manifest.root) / path), box)
        for path, box in zip(manifest.frame["path"], boxes, strict=True)
    ]
    turns: dict[str, Callable[[Path, int], None]] = {
        "Pillow in a process pool": partial(with_pillow, rows),
        "gpufeed.prepare": partial(with_gpufeed, manifest),
        "gpufeed.prepare, raw": partial(with_gpufeed, manifest, to="raw"),
    }
    if importlib.util.find_spec("litdata") is not None:
        turns["LitData's optimize"] = partial(with_litdata, rows)
    if importlib.util.find_spec("ffcv") is not None:
        turns["FFCV's writer"] = partial(with_ffcv, rows)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in turns}
    for number in range(rounds + 1):
        for name, turn in turns.items():
            out = folder / "out"
            cpu, began = cpu_seconds(), time.perf_counter()
            turn(out, workers)
            seconds, spent = time.perf_counter() - began, cpu_seconds() - cpu
            shutil.rmtree(out)
            if number:
                found[name].append((len(rows) / seconds, 1e3 * spent / len(rows)))
    first = found[next(iter(turns))]
    return {
        name: {
            "cpu_ms": median_of([cpu for _, cpu in figures]),
            "cpu_of_first": median_of(
                [mine / other for (_, mine), (_, other) in zip(figures, first, strict=True)]
            ),
            "images_per_second": median_of([rate for rate, _ in figures]),
            "rate_of_first": median_of(
                [mine / other for (mine, _), (other, _) in zip(figures, first, strict=True)]
            ),
        }
        for name, figures in found.items()
    }


def digests(folder: Path) -> dict[str, str]:
    """The digest of each file in a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def kill(manifest: gpufeed.Manifest, to: str, kills: int, workers: int, folder: Path) -> str:
    """Kill `gpufeed prepare` at random moments, at least so often; return what came of it."""
    table = Path(manifest.root) / "photos.parquet"
    command = [sys.executable, "-m", "gpufeed", "prepare", str(table), "--root", str(manifest.root)]
    command += ["--box-margin", "0.2", "--square", "269", "--shard-size", "8", "--to", to]
    subprocess.run([*command, str(folder / "whole"), "--workers", "1"], check=True)
    wanted = digests(folder / "whole")
    command += ["--workers", str(workers)]
    began = time.perf_counter()
    subprocess.run([*command, str(folder / "again")], check=True)
    longest, differ = time.perf_counter() - began, int(digests(folder / "again") != wanted)
    drawn, runs = random.Random(0), 1  # noqa: S311
    finished: list[int] = []
    while len(finished) < kills:
        out, ended = folder / f"killed-{runs}", False
        while not ended:
            with subprocess.Popen([*command, str(out)], start_new_session=True) as process:
                try:
                    if process.wait(drawn.uniform(0, longest)):
                        raise RuntimeError("gpufeed prepare failed")
                    ended = True
                except subprocess.TimeoutExpired:
                    finished.append(len(list((out / ".prepare").glob("*.parquet"))))
                    os.killpg(process.pid, signal.SIGKILL)
        runs += 1
        differ += digests(out) != wanted
    return (
        f"{to}: {len(finished)} kills in {runs} runs, of which {differ} wrote other files than one "
        f"call with one worker; shards that were finished when it was killed: {finished}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.prepare", description=__doc__)
    parser.add_argument("--photos", type=Path, help="folder of photos; without, synthetic birds")
    parser.add_argument("--pictures", type=int, default=600, help="number of images to prepare")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, help="kill it so often, and measure nothing")
    parser.add_argument("--to", default="tar", help="what it writes while it is killed")
    parser.add_argument("--json", type=Path, help="JSON file to write the figures to")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        photos = given.photos or write_nabirds(folder / "birds", images=50)
        manifest = list_photos(photos, folder / "photos", given.pictures)
        if given.kills:
            print(kill(manifest, given.to, given.kills, given.workers, folder))
            return
        results = measure(manifest, given.rounds, given.workers, folder)
    for contender, figures in results.items():
        told = ", ".join(
            f"{figure} {each.median:,.2f} ({each.low:,.2f} to {each.high:,.2f})"
            for figure, each in figures.items()
        )
        print(f"{contender:26} {told}")
    if given.json is not None:
        kept = {
            contender: {figure: asdict(each) for figure, each in figures.items()}
            for contender, figures in results.items()
        }
        written = {"machine": asdict(Machine.here()), "results": kept}
        given.json.write_text(json.dumps(written, indent=1))


if __name__ == "__main__":
    main()
