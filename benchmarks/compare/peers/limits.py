"""Upper limits for any loader: parts of the work alone, and a batch that is ready."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.compare.encoded import places
from benchmarks.compare.peer import Peer
from benchmarks.compare.work import Work

__all__ = ["PEERS"]


def _decode(work: Work) -> Iterator[tuple[Any, Any]]:
    """Plain decode by libjpeg-turbo, each image whole, as many threads as cores."""
    import simplejpeg

    ready = np.zeros((work.batch_size, 3, work.size, work.size), dtype=np.float32)

    def decode(path: str) -> None:
        with open(path, "rb") as file:  # noqa: PTH123 - a hot path
            simplejpeg.decode_jpeg(file.read())

    with ThreadPoolExecutor(work.cores) as pool:
        for batch in places(work):
            list(pool.map(decode, [work.files[place] for place in batch]))
            yield ready, batch


def _windows(work: Work) -> Iterator[tuple[Any, Any]]:
    """DALI's decode of the windows of random crops, and nothing else."""
    from benchmarks.dali import windows

    on_gpu = work.device == "cuda"
    ready = np.zeros((work.batch_size, 3, work.size, work.size), dtype=np.float32)
    pipeline = windows(
        work.files,
        on_gpu,
        mapped=not work.cold,
        batch_size=work.batch_size,
        num_threads=work.cores,
        device_id=0 if on_gpu else None,
    )
    pipeline.build()
    while True:
        _, label = pipeline.run()
        yield ready, np.asarray(label.as_cpu().as_tensor())[:, 0].copy()


def _ready(work: Work) -> Iterator[tuple[Any, Any]]:
    """A batch that lies there."""
    ready: Any = np.zeros((work.batch_size, 3, work.size, work.size), dtype=np.float32)
    if work.device == "cuda":
        import torch

        ready = torch.from_numpy(ready).cuda()
    for batch in places(work):
        yield ready, batch


PEERS = [
    Peer("limit: plain decode, a thread a core", _decode, ("simplejpeg",), False, "decode only"),
    Peer(
        "limit: DALI, decode of windows",
        _windows,
        (),
        False,
        "decode of the windows only",
        presets=("train",),
    ),
    Peer("limit: a batch that is ready", _ready, (), False, "nothing"),
]
