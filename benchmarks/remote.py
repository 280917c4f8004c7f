"""Measure feeding from an object store, for several latencies and numbers of requests at a time.

A process of its own stands for the store (`store.py`). So this tells how well requests overlap, and
what each costs in CPU time; it tells nothing of bandwidth, nor of a store that limits its users.
"possible" is what so many requests at a time allow if nothing else took any time.

    python -m benchmarks.remote
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

import gpufeed
from benchmarks.store import Store

_IMAGES = 512
_BATCH = 64


@dataclass(frozen=True)
class Round:
    """Images/s, CPU microseconds of an image in this process, and the peak of requests."""

    images_per_second: float
    cpu_us: float
    peak: int


def measure(loader: gpufeed.Loader, store: Store, latency: float) -> Round:
    """Feed one epoch."""
    store.set(latency)
    store.counts()
    start, cpu = time.perf_counter(), time.process_time()
    images = sum(len(batch["record_key"]) for batch in loader)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return Round(images / seconds, 1e6 * cpu / images, store.counts().peak)


def _image() -> bytes:
    """Return a JPEG of 16 x 16 pixels."""
    buffer = io.BytesIO()
    levels = np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(levels).save(buffer, "JPEG")
    return buffer.getvalue()


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latencies", type=float, nargs="+", default=[0, 20, 100], help="in ms")
    parser.add_argument("--requests", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--schemes", nargs="+", default=["s3", "http"])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    names = [f"{number:05}.jpg" for number in range(_IMAGES)]
    with tempfile.TemporaryDirectory() as folder:
        (photos := Path(folder) / "photos").mkdir()
        for name in names:
            (photos / name).write_bytes(_image())
        with Store(Path(folder)) as store:
            _report(options, names, store)


def _report(options: argparse.Namespace, names: list[str], store: Store) -> None:
    os.environ |= {"AWS_ENDPOINT_URL": store.address, "AWS_SKIP_SIGNATURE": "true"}
    print("| from | latency, ms | requests at a time | images/s | possible | peak | CPU us/image |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for scheme in options.schemes:
        root = "s3://photos" if scheme == "s3" else f"{store.address}/photos"
        for requests in options.requests:
            storage = gpufeed.RemoteStorage(root, max_requests=requests)
            manifest = gpufeed.read_table(
                pl.DataFrame({"path": names}), label=None, root=storage, progress=False
            )
            with gpufeed.Loader(
                manifest,
                sampler=gpufeed.IndexSampler(_IMAGES, shuffle=True, seed=1),
                transforms=gpufeed.presets.evaluate(16),
                batch_size=_BATCH,
                device="cpu",
            ) as loader:
                measure(loader, store, 0.0)  # makes the engine and the connections
                for latency in options.latencies:
                    rounds = [measure(loader, store, latency / 1e3) for _ in range(options.rounds)]
                    rate = statistics.median(each.images_per_second for each in rounds)
                    cpu = statistics.median(each.cpu_us for each in rounds)
                    peak = max(each.peak for each in rounds)
                    most = f"{1e3 * requests / latency:,.0f}" if latency else ""
                    print(
                        f"| {scheme} | {latency:g} | {requests} | {rate:,.0f} | {most} | {peak} "
                        f"| {cpu:,.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
