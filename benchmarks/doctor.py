"""Plant bottlenecks, and see whether `gpufeed doctor` names them, and how well it predicts.

python -m benchmarks.doctor --json FILE
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image

import gpufeed
from benchmarks.machine import Machine
from benchmarks.store import Store
from gpufeed.tools.median import Median

_TRAIN = gpufeed.presets.train


@dataclass(frozen=True)
class Plant:
    """A bottleneck that was planted.

    Attributes:
        manifest: the images.
        options: of `doctor`.
        culprits: the answers that are right.
        advice: the change that undoes it; None where there is none.
    """

    manifest: gpufeed.Manifest
    options: dict[str, Any]
    culprits: tuple[str, ...]
    advice: str | None


def draw(folder: Path, count: int, size: tuple[int, int], noise: float, kind: str) -> Path:
    """Write images of smooth colours with noise; copies of eight, each a file of its own."""
    folder.mkdir()
    drawn, (width, height) = np.random.default_rng(0), size
    contents = []
    for _ in range(min(count, 8)):
        coarse = drawn.integers(0, 255, (height // 16 + 2, width // 16 + 2, 3), dtype=np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC))
        noisy = (smooth + drawn.normal(0, noise, (height, width, 1))).clip(0, 255)
        buffer = io.BytesIO()
        Image.fromarray(noisy.astype(np.uint8)).save(buffer, kind)
        contents.append(buffer.getvalue())
    for number in range(count):
        path = folder / f"{number:05}.{kind.lower()}"
        path.write_bytes(contents[number % len(contents)])
    return folder


def listed(folder: Path) -> gpufeed.Manifest:
    """List all images of a folder."""
    names = sorted(path.name for path in folder.iterdir())
    return gpufeed.read_table(
        pl.DataFrame({"path": names}), label=None, root=folder, progress=False
    )


@contextmanager
def slow_store(folder: Path) -> Iterator[Plant]:
    """Images behind a store that answers after 30 ms, with 2 MB/s for all requests together."""
    draw(folder / "photos", 2000, (269, 269), 4, "JPEG")
    with Store(folder, latency=0.03, rate=2e6) as store:
        os.environ |= {"AWS_ENDPOINT_URL": store.address, "AWS_SKIP_SIGNATURE": "true"}
        names = pl.DataFrame({"path": [f"{number:05}.jpeg" for number in range(2000)]})
        frame = names.with_columns(width=pl.lit(269), height=pl.lit(269))
        source = gpufeed.RemoteStorage("s3://photos")
        manifest = gpufeed.read_table(frame, label=None, root=source, progress=False)
        yield Plant(manifest, {}, ("storage",), "tier")


@contextmanager
def one_thread(folder: Path) -> Iterator[Plant]:
    """Photos, and a loader that may use one thread."""
    photos = draw(folder / "one", 512, (1024, 768), 3, "JPEG")
    yield Plant(listed(photos), {"num_threads": 1}, ("threads",), "threads")


@contextmanager
def huge_pngs(folder: Path) -> Iterator[Plant]:
    """Images of which each takes long to decode."""
    photos = draw(folder / "huge", 48, (3000, 2000), 3, "PNG")
    yield Plant(listed(photos), {}, ("cpu: decode",), "prepare")


@contextmanager
def expensive_policy(folder: Path) -> Iterator[Plant]:
    """Small photos, and a policy that takes most of the CPU time."""
    photos = draw(folder / "policy", 512, (269, 269), 4, "JPEG")
    plain = _TRAIN()
    policy = [*plain[:-1], gpufeed.AugMix(), plain[-1]]
    yield Plant(listed(photos), {"transforms": policy}, ("cpu: AugMix",), "AugMix")


@contextmanager
def tiny_files(folder: Path) -> Iterator[Plant]:
    """Images so small that only the work for each file is left, in small batches."""
    photos = draw(folder / "tiny", 4096, (16, 16), 10, "JPEG")
    options = {"transforms": _TRAIN(16), "batch_size": 16}
    yield Plant(listed(photos), options, ("cpu: work for each file", "planning"), "batch size")


@contextmanager
def healthy(folder: Path) -> Iterator[Plant]:
    """Small photos, and a training step that the loader keeps up with."""
    photos = draw(folder / "healthy", 512, (269, 269), 4, "JPEG")
    yield Plant(listed(photos), {"step": 0.06}, ("consumer",), None)


PLANTS: dict[str, Callable[[Path], Any]] = {
    "slow store": slow_store,
    "one thread": one_thread,
    "huge PNGs": huge_pngs,
    "expensive policy": expensive_policy,
    "tiny files": tiny_files,
    "nothing (the loader has room)": healthy,
}


def _interval(gain: Median) -> str:
    return f"{gain.median:.2f} ({gain.low:.2f} to {gain.high:.2f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Diagnose each, print the table, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--plants", nargs="+", choices=PLANTS, default=list(PLANTS))
    parser.add_argument("--json", type=Path, help="JSON file to write the figures to")
    parser.add_argument("--reports", action="store_true", help="print each report too")
    options = parser.parse_args(arguments)

    found: dict[str, Any] = {}
    print(
        "| planted | found | ceiling, images/s | first advice: gain | cores free "
        "| predicted with these | measured | CPU time saved | s |"
    )
    print("|---|---|--:|---|--:|--:|--:|--:|--:|")
    for name in options.plants:
        with tempfile.TemporaryDirectory() as folder, PLANTS[name](Path(folder)) as plant:
            began = time.perf_counter()
            report = gpufeed.doctor(
                plant.manifest, **{"device": "cpu", "progress": False, **plant.options}
            )
            seconds = time.perf_counter() - began
        right = report.culprit in plant.culprits
        named = [each.name for each in report.advice]
        gains = ["-"] * 4
        if (applied := report.verified) is not None:
            gains = [f"{report.free:.1f}"]
            gains += map(_interval, (applied.predicted, applied.measured, applied.cpu))
        first = [f"{each.name}: {_interval(each.gain)}" for each in report.advice[:1]]
        print(
            f"| {name} | {report.culprit}{'' if right else ' (wrong)'} "
            f"| {report.bound.rate.median:,.0f} | {' '.join(first) or 'none'} "
            f"| {' | '.join(gains)} | {seconds:.0f} |",
            flush=True,
        )
        if options.reports:
            print(f"\n{report}\n", flush=True)
        found[name] = {
            "right": right,
            "advised": plant.advice is None or plant.advice in named,
            **json.loads(report.to_json()),
        }
    print(f"\n{Machine.here()}; load {os.getloadavg()[0]:.1f}")
    if options.json is not None:
        figures = {"machine": asdict(Machine.here()), "load": os.getloadavg(), "plants": found}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
