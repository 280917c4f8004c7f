"""Measure feeding from an object store, for several latencies and numbers of requests at a time.

A process of its own stands for the store: it answers requests for parts of objects as S3 does, each
after the latency. So this tells how well requests overlap, and what each costs in CPU time; it
tells nothing of bandwidth, nor of a store that limits its users. "possible" is what so many
requests at a time allow if nothing else took any time.

    python -m benchmarks.remote
"""

from __future__ import annotations

import argparse
import asyncio
import io
import multiprocessing
import os
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
import polars as pl
from PIL import Image

import gpufeed

_IMAGES = 512
_BATCH = 64


def serve(pipe: Connection, content: bytes) -> None:
    """Answer every request with a part of `content`, until the process is ended.

    Send the port; then take latencies in seconds, each acknowledged by the peak of requests since.
    """
    latency, now, peak = 0.0, 0, 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now, peak
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                now += 1
                peak = max(peak, now)
                await asyncio.sleep(latency)
                wanted = re.search(r"(?i)range: bytes=(\d+)-(\d*)", head)
                status, extra, part = "200 OK", "", content
                if wanted:
                    part = content[int(wanted[1]) : int(wanted[2] or len(content)) + 1]
                    last = int(wanted[1]) + len(part) - 1
                    status = "206 Partial Content"
                    extra = f"Content-Range: bytes {wanted[1]}-{last}/{len(content)}\r\n"
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Length: {len(part)}\r\n{extra}"
                    'ETag: "1"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n'.encode()
                    + part
                )
                now -= 1
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def take_latency() -> None:
        nonlocal latency, peak
        latency = pipe.recv()
        pipe.send(peak)
        peak = 0

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
        asyncio.get_running_loop().add_reader(pipe.fileno(), take_latency)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@dataclass(frozen=True)
class Round:
    """Images/s, CPU microseconds of an image in this process, and the peak of requests."""

    images_per_second: float
    cpu_us: float
    peak: int


def measure(loader: gpufeed.Loader, set_latency: Callable[[float], int], latency: float) -> Round:
    """Feed one epoch."""
    set_latency(latency)
    start, cpu = time.perf_counter(), time.process_time()
    images = sum(len(batch["record_key"]) for batch in loader)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return Round(images / seconds, 1e6 * cpu / images, set_latency(0.0))


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
    ours, theirs = multiprocessing.Pipe()
    spawn = multiprocessing.get_context("spawn")
    server = spawn.Process(target=serve, args=(theirs, _image()), daemon=True)
    server.start()
    address = f"127.0.0.1:{ours.recv()}"
    os.environ |= {"AWS_ENDPOINT_URL": f"http://{address}", "AWS_SKIP_SIGNATURE": "true"}

    def set_latency(seconds: float) -> int:
        ours.send(seconds)
        peak: int = ours.recv()
        return peak

    names = [f"{number:05}.jpg" for number in range(_IMAGES)]
    print("| from | latency, ms | requests at a time | images/s | possible | peak | CPU us/image |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for scheme in options.schemes:
        root = "s3://bucket/photos" if scheme == "s3" else f"http://{address}/photos"
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
                measure(loader, set_latency, 0.0)  # makes the engine and the connections
                for latency in options.latencies:
                    rounds = [
                        measure(loader, set_latency, latency / 1e3) for _ in range(options.rounds)
                    ]
                    rate = statistics.median(each.images_per_second for each in rounds)
                    cpu = statistics.median(each.cpu_us for each in rounds)
                    peak = max(each.peak for each in rounds)
                    most = f"{1e3 * requests / latency:,.0f}" if latency else ""
                    print(
                        f"| {scheme} | {latency:g} | {requests} | {rate:,.0f} | {most} | {peak} "
                        f"| {cpu:,.0f} |",
                        flush=True,
                    )
    server.kill()


if __name__ == "__main__":
    main()
