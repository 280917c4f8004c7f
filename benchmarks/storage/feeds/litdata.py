"""LitData, from its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.storage.feeds.feed import SEED, SHARD, Epoch, Given, decode, load


def write(images: Sequence[bytes], folder: Path) -> None:
    """Write chunks."""
    from litdata.streaming import Cache

    cache = Cache(str(folder), chunk_size=SHARD)
    for number, content in enumerate(images):
        cache[number] = {"number": number, "image": content}
    cache.done()
    cache.merge()


def decoded(sample: dict[str, Any]) -> dict[str, Any]:
    """Decode the image of a sample."""
    return {"number": sample["number"], "image": decode(sample["image"])}


def open_feed(given: Given) -> Epoch:
    """Feed with its limited cache."""
    from litdata import StreamingDataLoader, StreamingDataset
    from litdata.streaming import downloader

    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
    dataset = StreamingDataset(
        f"s3://{given.format}",
        cache_dir=str(given.folder),
        max_cache_size=given.room,
        shuffle=True,
        seed=SEED,
        transform=decoded,
        storage_options={
            "endpoint_url": given.address,
            "aws_access_key_id": "none",
            "aws_secret_access_key": "none",
            "region_name": "us-east-1",
        },
    )
    return load(dataset, lambda _: None, StreamingDataLoader)
