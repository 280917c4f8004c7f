"""gpufeed, from a file for each image."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
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


def open_feed(given: Given) -> Epoch:
    """Feed with a `DiskCache`, or without."""
    os.environ |= {"AWS_ENDPOINT_URL": given.address, "AWS_SKIP_SIGNATURE": "true"}
    sizes = {"width": [SIDE] * given.images, "height": [SIDE] * given.images}
    names = [f"{number:06}.jpg" for number in range(given.images)]
    manifest = gpufeed.read_table(
        pl.DataFrame({"path": names} | sizes),
        label=None,
        root=gpufeed.RemoteStorage(f"s3://{given.format}"),
        progress=False,
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
