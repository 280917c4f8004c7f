"""WebDataset, from tar files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.storage.feeds.feed import SEED, SHARD, WINDOW, Epoch, Given, decode, load


def write(images: Sequence[bytes], folder: Path) -> None:
    """Write shards."""
    from webdataset import ShardWriter

    with ShardWriter(str(folder / "%06d.tar"), maxcount=SHARD, verbose=0) as writer:
        for number, content in enumerate(images):
            writer.write({"__key__": f"{number:06}", "jpg": content})


def decoded(sample: dict[str, Any]) -> dict[str, Any]:
    """Decode the image of a sample."""
    return {"number": int(sample["__key__"]), "image": decode(sample["jpg"])}


def open_feed(given: Given) -> Epoch:
    """Feed with its limited cache."""
    import webdataset
    from webdataset.cache import FileCache

    shards = -(-given.images // SHARD)
    dataset = webdataset.WebDataset(
        [f"{given.address}/{given.format}/{number:06}.tar" for number in range(shards)],
        shardshuffle=shards,
        detshuffle=True,
        seed=SEED,
        cache_dir=str(given.folder),
        cache_size=given.room,
    )
    for stage in dataset.pipeline:
        if isinstance(stage, FileCache):
            # Looks at the limit before each download, rather than each half a minute.
            stage.cleaner.interval = None
    return load(dataset.shuffle(WINDOW).map(decoded), lambda _: None)
