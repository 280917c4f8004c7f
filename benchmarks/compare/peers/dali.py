"""DALI by itself: as in its documentation, and tuned by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.compare.peer import Peer
from benchmarks.compare.work import Work

__all__ = ["PEERS"]


def _options(work: Work) -> dict[str, Any]:
    return {
        "batch_size": work.batch_size,
        "num_threads": work.cores,
        "device_id": 0 if work.device == "cuda" else None,
    }


def _documented(work: Work) -> Iterator[tuple[Any, Any]]:
    # On a GPU its iterator for PyTorch, which copies; on the CPU that one works as well.
    from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

    from benchmarks.dali import documented

    pipeline = documented(
        work.files,
        work.size,
        work.device == "cuda",
        work.preset,
        mapped=not work.cold,
        prefetch_queue_depth=2,
        **_options(work),
    )
    batches = DALIGenericIterator(
        [pipeline],
        ["image", "label"],
        reader_name="reader",
        last_batch_policy=LastBatchPolicy.DROP,
        auto_reset=True,
    )
    while True:
        for (batch,) in batches:
            yield batch["image"], batch["label"][:, 0]


def _tuned(work: Work) -> Iterator[tuple[Any, Any]]:
    import numpy as np

    from benchmarks.dali import tuned

    pipeline = tuned(
        work.files,
        work.size,
        work.device == "cuda",
        work.preset,
        mapped=not work.cold,
        prefetch_queue_depth=3,
        exec_dynamic=True,
        **_options(work),
    )
    pipeline.build()
    pipeline.schedule_run()
    while True:
        image, label = pipeline.share_outputs()
        pixels, labels = image.as_tensor(), np.asarray(label.as_cpu().as_tensor())[:, 0].copy()
        pipeline.release_outputs()
        pipeline.schedule_run()
        yield (pixels if work.device == "cuda" else np.from_dlpack(pixels)), labels


PEERS = [
    Peer("DALI as documented, PyTorch iterator", _documented, needs=("torch",)),
    Peer("DALI tuned by hand", _tuned),
]
