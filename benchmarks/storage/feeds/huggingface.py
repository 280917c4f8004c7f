"""Hugging Face datasets, streamed from Parquet files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.storage.feeds.feed import SEED, SHARD, WINDOW, Epoch, Given, decode, load


def write(images: Sequence[bytes], folder: Path) -> None:
    """Write files."""
    import datasets

    datasets.disable_progress_bars()
    for start in range(0, len(images), SHARD):
        part = list(images[start : start + SHARD])
        rows = {"number": range(start, start + len(part)), "image": part}
        table = datasets.Dataset.from_dict(rows)
        table.to_parquet(folder / f"{start // SHARD:06}.parquet")


def decoded(row: dict[str, Any]) -> dict[str, Any]:
    """Decode the image of a row."""
    return {"number": row["number"], "image": decode(row["image"])}


def open_feed(given: Given) -> Epoch:
    """Stream; nothing is kept."""
    # No hub is asked for anything: nothing listens there.
    os.environ |= {"HF_ENDPOINT": "http://localhost:9", "HF_HUB_DISABLE_TELEMETRY": "1"}
    os.environ["HF_HOME"] = str(given.folder)
    import datasets

    datasets.disable_progress_bars()
    files = [
        f"{given.address}/{given.format}/{number:06}.parquet"
        for number in range(-(-given.images // SHARD))
    ]
    dataset = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    dataset = dataset.shuffle(seed=SEED, buffer_size=WINDOW, max_buffer_input_shards=1).map(decoded)
    return load(dataset, dataset.set_epoch)
