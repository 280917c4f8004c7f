"""MosaicML streaming, from MDS shards."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.storage.feeds.feed import BATCH, SEED, SHARD, WINDOW, Epoch, Given, decode, load


def write(images: Sequence[bytes], folder: Path) -> None:
    """Write shards."""
    from streaming import MDSWriter

    size = SHARD * sum(map(len, images)) // len(images)
    columns = {"number": "int", "image": "bytes"}
    with MDSWriter(out=str(folder), columns=columns, size_limit=size) as writer:
        for number, content in enumerate(images):
            writer.write({"number": number, "image": content})


def open_feed(given: Given) -> Epoch:
    """Feed with its limited cache."""
    os.environ |= {
        "S3_ENDPOINT_URL": given.address,
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()

    class Decoded(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, at: Any) -> Any:
            sample = super().__getitem__(at)
            return {"number": sample["number"], "image": decode(sample["image"])}

    dataset = Decoded(
        remote=f"s3://{given.format}",
        local=str(given.folder),
        cache_limit=given.room,
        shuffle=True,
        shuffle_seed=SEED,
        shuffle_block_size=WINDOW,
        num_canonical_nodes=1,
        batch_size=BATCH,
    )
    for stream in dataset.streams:
        stream._downloader.clean_up()  # or the workers share a connection, and mix up its answers
    return load(dataset, lambda _: None)
