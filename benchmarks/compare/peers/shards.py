"""WebDataset and Hugging Face datasets: pictures packed into larger files beforehand."""

from __future__ import annotations

import atexit
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare.host import pillow_job
from benchmarks.compare.peer import Peer
from benchmarks.compare.work import Work

__all__ = ["PEERS"]

_SHARDS = 8


def _scratch() -> Path:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _webdataset(work: Work) -> Iterator[tuple[Any, Any]]:
    import io

    import torch
    import webdataset as wds

    torch.set_num_threads(1)
    folder = _scratch()
    for shard in range(_SHARDS):
        with tarfile.open(folder / f"{shard}.tar", "w") as archive:
            for label in range(shard, len(work.paths), _SHARDS):
                archive.add(work.files[label], f"{label:06}.jpg")

    def prepare(sample: dict[str, Any]) -> tuple[Any, int]:
        rng = np.random.default_rng()
        encoded: Any = io.BytesIO(sample["jpg"])
        return pillow_job(encoded, work.size, rng), int(sample["__key__"])

    dataset = (
        wds.WebDataset(
            [str(folder / f"{shard}.tar") for shard in range(_SHARDS)],
            shardshuffle=_SHARDS,
            nodesplitter=wds.split_by_node,
            workersplitter=wds.split_by_worker,
        )
        .shuffle(1000)
        .map(prepare)
    )
    loader = wds.WebLoader(
        dataset.batched(work.batch_size, partial=False), batch_size=None, num_workers=2
    )
    while True:
        for image, label in loader:
            image = torch.as_tensor(image)
            yield (image.cuda() if work.device == "cuda" else image), label


def _huggingface(work: Work) -> Iterator[tuple[Any, Any]]:
    import datasets
    import torch

    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    table = datasets.Dataset.from_dict({"file": work.files, "label": range(len(work.files))})

    def prepare(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        rng = np.random.default_rng()
        images = [torch.from_numpy(pillow_job(path, work.size, rng)) for path in rows["file"]]
        return {"image": images, "label": rows["label"]}

    table.set_transform(prepare)
    loader: Any = torch.utils.data.DataLoader(
        table,
        batch_size=work.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=2,
        persistent_workers=True,
    )
    while True:
        for batch in loader:
            image = batch["image"]
            yield (image.cuda() if work.device == "cuda" else image), batch["label"]


PEERS = [
    Peer("WebDataset, Pillow, 2 workers", _webdataset, ("webdataset", "torch")),
    Peer("Hugging Face datasets, Pillow, 2 workers", _huggingface, ("datasets", "torch")),
]
