"""gpufeed, from a file for each image."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl

import gpufeed
from benchmarks.storage.feeds.feed import BATCH, SEED, Epoch, Given, Int64

SIDE = 64


def write(images: Sequence[bytes], folder: Path) -> None:
    """Write a file for each."""
    for number, content in enumerate(images):
        (folder / f"{number:06}.jpg").write_bytes(content)


class SlowFiles:
    """Files whose reads block their thread for as long as the store takes, as of a slow disk."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._threads = threading.local()

    def read(self, keys: Int64) -> list[bytes | OSError]:
        """Read files, one after the other."""
        if not hasattr(self._threads, "connection"):
            host = self._given.address.removeprefix("http://")
            self._threads.connection = HTTPConnection(host)
        connection: HTTPConnection = self._threads.connection
        found: list[bytes | OSError] = []
        for key in keys:
            connection.request("GET", f"/{self._given.format}/{self.name(key)}")
            found.append(connection.getresponse().read())
        return found

    def name(self, key: int) -> str:
        """Return the name of a file."""
        return f"{key:06}.jpg"

    def fingerprint(self) -> str:
        """Return the same text always: the files do not change."""
        return "slow files"


def open_feed(given: Given) -> Epoch:
    """Feed from an object store, with a `DiskCache`, or without."""
    os.environ |= {"AWS_ENDPOINT_URL": given.address, "AWS_SKIP_SIGNATURE": "true"}
    names = [f"{number:06}.jpg" for number in range(given.images)]
    root = gpufeed.RemoteStorage(f"s3://{given.format}")
    return _feed(given, {"path": names}, {"root": root})


def open_files(given: Given) -> Epoch:
    """Feed from slow files, with a `DiskCache`, or without."""
    return _feed(given, {}, {"source": SlowFiles(given)})


def _feed(given: Given, columns: dict[str, list[str]], where: dict[str, Any]) -> Epoch:
    sizes = {"width": [SIDE] * given.images, "height": [SIDE] * given.images}
    manifest = gpufeed.read_table(
        pl.DataFrame(columns | sizes), label=None, progress=False, **where
    )
    options: dict[str, Any] = {}
    if given.room:
        options["cache"] = [gpufeed.DiskCache(given.folder, given.room)]
    loader = gpufeed.Loader(
        manifest,
        # Without end: what is read ahead of the next epoch is on the account of this one.
        sampler=gpufeed.IndexSampler(given.images, shuffle=True, seed=SEED),
        transforms=gpufeed.presets.evaluate(SIDE),
        batch_size=BATCH,
        device="cpu",
        **options,
    )
    batches = loader.forever()

    def epoch(_: int) -> Iterable[Int64]:
        for _ in range(len(loader)):
            yield next(batches)["record_key"]

    return epoch


def open_blind(given: Given) -> Epoch:
    """Feed with a cache that does not know the future: it gives up what was used least recently."""
    mock.patch("gpufeed.tiers.horizon.foresees", return_value=False).start()
    return open_feed(given)
