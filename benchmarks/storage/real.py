"""Real runs: feeding from a store that is slow, with tiers and without, in turns.

A process of its own stands for the store. It answers as S3 does, each request after a latency, and
sends all answers together at no more than a rate. The wall time of an epoch is then that of what
has to be fetched, as long as the machine is fast enough for the rest.
"""

from __future__ import annotations

import asyncio
import io
import multiprocessing
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
from PIL import Image

import gpufeed

__all__ = ["FEEDS", "Figures", "run"]

BATCH = 32
SIDE = 64


@dataclass(frozen=True)
class Figures:
    """The figures of one feed, over epochs after the first; medians.

    Attributes:
        name: of the feed.
        images_per_second: images fed by wall time.
        fetched: share of the images that were read from the store.
        hits: share that the tier had.
        cpu_ms: CPU time of this process by image, in milliseconds.
        first: images fed by wall time in the first epoch.
    """

    name: str
    images_per_second: float
    fetched: float
    hits: float
    cpu_ms: float
    first: float


def serve(pipe: Connection, content: bytes, latency: float, rate: float) -> None:
    """Answer requests for any path with a part of `content`, until the process is ended."""
    free = 0.0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal free
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                wanted = re.search(r"(?i)range: bytes=(\d+)-(\d*)", head)
                status, extra, part = "200 OK", "", content
                if wanted:
                    part = content[int(wanted[1]) : int(wanted[2] or len(content)) + 1]
                    last = int(wanted[1]) + len(part) - 1
                    status = "206 Partial Content"
                    extra = f"Content-Range: bytes {wanted[1]}-{last}/{len(content)}\r\n"
                body = b"" if head.startswith("HEAD") else part
                # When the line is free again, after this answer.
                free = max(free, time.monotonic()) + len(body) / rate
                await asyncio.sleep(latency + free - time.monotonic())
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Length: {len(part)}\r\n{extra}"
                    'ETag: "1"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n'.encode()
                    + body
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def start() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(start())


def _image(length: int) -> bytes:
    """Return a JPEG of about so many bytes; most of them are a comment, which costs nothing."""
    buffer = io.BytesIO()
    levels = np.random.default_rng(0).integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
    Image.fromarray(levels).save(buffer, "JPEG", comment=bytes(max(0, length - 8_000)))
    return buffer.getvalue()


@contextmanager
def blind() -> Iterator[None]:
    """Let tiers know nothing of the future, so that they give up what was used least recently."""
    with mock.patch("gpufeed.tiers.horizon.foresees", return_value=False):
        yield


FEEDS: dict[str, Callable[[Any], tuple[dict[str, Any], bool]]] = {
    "no tier": lambda _: ({}, False),
    "least recently used": lambda tier: ({"cache": [tier]}, True),
    "gpufeed": lambda tier: ({"cache": [tier]}, False),
}
"""Options of a `Loader` for a tier, and whether it is blind. Other libraries' feeds come here."""


def run(
    images: int,
    length: int,
    share: float,
    latency: float,
    rate: float,
    epochs: int,
    work: float,
    rounds: int,
) -> list[Figures]:
    """Feed in turns.

    Args:
        images: number of images.
        length: bytes of each.
        share: the share of them that the tier has room for.
        latency: seconds until the store answers.
        rate: bytes per second of all its answers.
        epochs: epochs of each feed.
        work: seconds that the consumer takes for a batch.
        rounds: turns of each feed, with a new tier each time.
    """
    content = _image(length)
    ours, theirs = multiprocessing.Pipe()
    spawn = multiprocessing.get_context("spawn")
    server = spawn.Process(target=serve, args=(theirs, content, latency, rate), daemon=True)
    server.start()
    address = f"http://127.0.0.1:{ours.recv()}"
    os.environ |= {"AWS_ENDPOINT_URL": address, "AWS_SKIP_SIGNATURE": "true"}
    names = pl.DataFrame({"path": [f"{number:06}.jpg" for number in range(images)]})
    size = names.with_columns(width=pl.lit(SIDE), height=pl.lit(SIDE))
    block = -(-(len(content) + 16) // 4096) * 4096
    room = int(share * images) * block + (1 << 16)
    turns: dict[str, list[list[float]]] = {name: [] for name in FEEDS}
    for _ in range(rounds):
        for name, feed in FEEDS.items():
            with tempfile.TemporaryDirectory() as folder:
                options, is_blind = feed(gpufeed.DiskCache(folder, room))
                source = gpufeed.RemoteStorage("s3://bucket/photos")
                manifest = gpufeed.read_table(size, label=None, root=source, progress=False)
                with blind() if is_blind else nullcontext():
                    turns[name] += _turn(manifest, options, epochs, work)
    server.kill()
    found = []
    for name, each in turns.items():
        later = [epoch[1:] for epoch in each if epoch[0]]
        speed, fetched, hits, cpu = map(statistics.median, zip(*later, strict=True))
        first = statistics.median(epoch[1] for epoch in each if not epoch[0])
        found.append(Figures(name, speed, fetched, hits, cpu, first))
    return found


def _turn(
    manifest: gpufeed.Manifest, options: dict[str, Any], epochs: int, work: float
) -> list[list[float]]:
    """Feed the epochs of a new loader; return the number of each and its figures."""
    loader = gpufeed.Loader(
        manifest,
        sampler=gpufeed.IndexSampler(len(manifest), shuffle=True, seed=1, num_epochs=epochs),
        transforms=gpufeed.presets.evaluate(SIDE),
        batch_size=BATCH,
        device="cpu",
        **options,
    )
    rows = []
    with loader:
        batches = loader.forever()
        before = loader.stats
        for epoch in range(epochs):
            start, cpu = time.perf_counter(), time.process_time()
            steps = len(loader)
            for _ in range(steps):
                next(batches)
                time.sleep(work)
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            now, count = loader.stats, steps * BATCH
            fetched = now.fetched_images - before.fetched_images if now.cache_hits else count
            hits = sum(now.cache_hits) - sum(before.cache_hits)
            rows.append([epoch, count / seconds, fetched / count, hits / count, 1e3 * cpu / count])
            before = now
    return rows
