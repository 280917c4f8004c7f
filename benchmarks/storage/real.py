"""Real runs: feeding from a store that is slow, in turns.

The store sends all its answers together at no more than a rate. The wall time of an epoch is then
that of what has to be fetched, as long as the machine is fast enough for the rest. What is fetched
is told by the store's own count. Each turn of a feed is a process of its own, with an empty cache.
"""

from __future__ import annotations

import importlib
import io
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.storage.feeds.feed import BATCH, Feed, Given
from benchmarks.storage.feeds.ours import SIDE
from benchmarks.store import Store

__all__ = ["FEEDS", "Epoch", "Options", "Turn", "run"]

FEEDS = (
    Feed("gpufeed, no tier", "ours", "gpufeed", ("obstore",), cache=False),
    Feed("gpufeed, least recently used", "ours", "gpufeed", ("obstore",), opens="open_blind"),
    Feed("gpufeed", "ours", "gpufeed", ("obstore",)),
    Feed("gpufeed, files, no tier", "ours", "gpufeed", cache=False, opens="open_files"),
    Feed("gpufeed, files", "ours", "gpufeed", opens="open_files"),
    Feed("MosaicML streaming", "mosaicml", "mosaicml-streaming", ("streaming", "torch")),
    Feed("LitData", "litdata", "litdata", ("litdata", "torch")),
    Feed("WebDataset", "webdataset", "webdataset", ("webdataset", "torch")),
    Feed("Hugging Face", "huggingface", "datasets", ("datasets", "torch"), cache=False),
)

_PATIENCE = 300
"""Seconds for an epoch."""


@dataclass(frozen=True)
class Options:
    """What is measured.

    Attributes:
        images: number of images.
        length: bytes of each, on average; they differ by up to a fifth.
        shares: the parts of the data that a cache has room for.
        latency: milliseconds until the store answers.
        rate: MB per second of all its answers.
        epochs: epochs of each turn.
        rounds: turns of each feed with each share.
        work: milliseconds that the consumer takes for a batch.
    """

    images: int
    length: int
    shares: list[float]
    latency: float
    rate: float
    epochs: int
    rounds: int
    work: float


@dataclass(frozen=True)
class Epoch:
    """An epoch of a turn.

    Attributes:
        seconds: wall time.
        cpu_seconds: CPU time of the feed's process and all below it.
        fetched: bytes that the store sent, as a share of all images' bytes.
        distinct: different images among those fed, as a share of all images.
        together: how often images that were written one after the other came in one batch, as a
            multiple of a full shuffle's.
    """

    seconds: float
    cpu_seconds: float
    fetched: float
    distinct: float
    together: float


@dataclass(frozen=True)
class Turn:
    """The epochs of a feed with room for a share of the data; 0 where it has no cache."""

    name: str
    share: float
    epochs: list[Epoch]


def run(options: Options, feeds: Sequence[Feed]) -> Iterator[Turn]:
    """Write all formats; then feed from them in turns."""
    images = _images(options.images, options.length)
    with tempfile.TemporaryDirectory() as folder:
        for module in sorted({feed.module for feed in feeds}):
            (Path(folder) / module).mkdir()
            importlib.import_module(f"benchmarks.storage.feeds.{module}").write(
                images, Path(folder) / module
            )
        size = sum(map(len, images))
        with Store(Path(folder), options.latency / 1e3, options.rate * 1e6) as store:
            for _ in range(options.rounds):
                for feed in feeds:
                    for share in options.shares if feed.cache else (0.0,):
                        yield _turn(store, feed, share, size, options)


def _turn(store: Store, feed: Feed, share: float, size: int, options: Options) -> Turn:
    with tempfile.TemporaryDirectory() as cache:
        room = int(share * size)
        given = Given(store.address, feed.module, options.images, Path(cache), room)
        with _child(feed, given, options) as answers:
            _receive(answers, feed)
            store.counts()
            found = []
            for _ in range(options.epochs):
                seconds, cpu, keys = _receive(answers, feed)
                fetched = store.counts().sent / size
                distinct = len(np.unique(keys)) / options.images
                found.append(
                    Epoch(seconds, cpu, fetched, distinct, _together(keys, options.images))
                )
    return Turn(feed.name, share, found)


@contextmanager
def _child(feed: Feed, given: Given, options: Options) -> Iterator[Connection]:
    ours, theirs = multiprocessing.Pipe()
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=_feed, args=(theirs, feed, given, options))
    process.start()
    theirs.close()
    try:
        yield ours
        process.join(20)
    finally:
        process.kill()
        process.join()


def _receive(answers: Connection, feed: Feed) -> tuple[float, float, list[int]]:
    if not answers.poll(_PATIENCE):
        raise TimeoutError(f"{feed.name} has not fed an epoch in {_PATIENCE} s")
    try:
        found: tuple[float, float, list[int]] = answers.recv()
    except EOFError:
        raise RuntimeError(f"{feed.name} has failed; its error is above") from None
    return found


def _feed(pipe: Connection, feed: Feed, given: Given, options: Options) -> None:
    """Open, and feed epochs; send the wall time, the CPU time and the numbers of the images."""
    from benchmarks.compare.contender import cpu_seconds

    module = importlib.import_module(f"benchmarks.storage.feeds.{feed.module}")
    epoch = getattr(module, feed.opens)(given)
    pipe.send((0.0, 0.0, []))
    for number in range(options.epochs):
        start, cpu, keys = time.perf_counter(), sum(cpu_seconds()), []
        for batch in epoch(number):
            keys += [int(key) for key in batch]
            time.sleep(options.work / 1e3)
        pipe.send((time.perf_counter() - start, sum(cpu_seconds()) - cpu, keys))


def _together(keys: Sequence[int], images: int) -> float:
    """Return how often neighbours are in one batch, as a multiple of a full shuffle's."""
    batch = np.full(images, -1)
    batch[np.array(keys)] = np.arange(len(keys)) // BATCH
    return float((batch[1:] == batch[:-1]).mean() * (images - 1) / (BATCH - 1))


def _images(count: int, length: int) -> list[bytes]:
    """Return JPEGs that are cheap to decode, since most of their bytes are a comment."""
    rng = np.random.default_rng(0)
    found = []
    for size in rng.integers(int(0.8 * length), int(1.2 * length), count):
        buffer = io.BytesIO()
        levels = rng.integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(levels).save(buffer, "JPEG", comment=rng.bytes(max(0, size - 3_400)))
        found.append(buffer.getvalue())
    return found
