"""WebDataset and Hugging Face datasets: images packed into larger files beforehand."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.compare.host import delivered, pillow_job
from benchmarks.compare.packed import packed_folder
from benchmarks.compare.peer import with_workers
from benchmarks.compare.work import Work

__all__ = ["PEERS"]

_SHARDS = 8


def _webdataset(work: Work, *, workers: int) -> Iterator[tuple[Any, Any]]:
    import io

    import torch
    import webdataset as wds

    torch.set_num_threads(1)
    folder = packed_folder()
    shards = max(_SHARDS, workers)
    for shard in range(shards):
        with tarfile.open(folder / f"{shard}.tar", "w") as archive:
            for label in range(shard, len(work.paths), shards):
                archive.add(work.files[label], f"{label:06}.jpg")

    def prepare(sample: dict[str, Any]) -> tuple[Any, int]:
        rng = np.random.default_rng()
        encoded: Any = io.BytesIO(sample["jpg"])
        return pillow_job(encoded, work, rng), int(sample["__key__"])

    dataset = (
        wds.WebDataset(
            [str(folder / f"{shard}.tar") for shard in range(shards)],
            shardshuffle=shards,
            nodesplitter=wds.split_by_node,
            workersplitter=wds.split_by_worker,
        )
        .shuffle(1000)
        .map(prepare)
    )
    loader = wds.WebLoader(
        dataset.batched(work.batch_size, partial=False), batch_size=None, num_workers=workers
    )
    while True:
        for image, label in loader:
            yield delivered(work, image), label


def _huggingface(work: Work, *, workers: int) -> Iterator[tuple[Any, Any]]:
    import datasets
    import torch

    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    table = datasets.Dataset.from_dict({"file": work.files, "label": range(len(work.files))})

    def prepare(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        rng = np.random.default_rng()
        images = [torch.from_numpy(pillow_job(path, work, rng)) for path in rows["file"]]
        return {"image": images, "label": rows["label"]}

    table.set_transform(prepare)
    loader: Any = torch.utils.data.DataLoader(
        table,
        batch_size=work.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=True,
    )
    while True:
        for batch in loader:
            yield delivered(work, batch["image"]), batch["label"]


PEERS = [
    *with_workers("WebDataset, Pillow", _webdataset, 2, needs=("webdataset", "torch")),
    *with_workers("Hugging Face datasets, Pillow", _huggingface, 2, needs=("datasets", "torch")),
]
