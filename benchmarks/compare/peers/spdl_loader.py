"""SPDL: a pipeline of thread stages, with OpenCV."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.compare.host import Job, delivered, opencv_job, pillow_job
from benchmarks.compare.peer import Peer
from benchmarks.compare.work import Work

__all__ = ["PEERS"]


def _open(work: Work, *, job: Job) -> Iterator[tuple[Any, Any]]:
    from spdl.pipeline import PipelineBuilder

    drawn = np.random.default_rng(0)
    count = len(work.paths) // work.batch_size * work.batch_size

    def source() -> Iterator[int]:
        while True:
            yield from drawn.permutation(len(work.paths))[:count].tolist()

    def prepare(label: int) -> tuple[Any, int]:
        return job(work.files[label], work, np.random.default_rng()), label

    def collate(rows: list[tuple[Any, int]]) -> tuple[Any, Any]:
        return np.stack([image for image, _ in rows]), np.array([label for _, label in rows])

    pipeline = (
        PipelineBuilder()
        .add_source(source())
        .pipe(prepare, concurrency=work.cores)
        .aggregate(work.batch_size)
        .pipe(collate)
        .add_sink(3)
        .build(num_threads=work.cores + 1)
    )
    with pipeline.auto_stop():
        for image, label in pipeline:
            yield delivered(work, image), label


def _opencv(work: Work) -> Iterator[tuple[Any, Any]]:
    return _open(work, job=opencv_job)


def _pillow(work: Work) -> Iterator[tuple[Any, Any]]:
    return _open(work, job=pillow_job)


PEERS = [
    Peer("SPDL, Pillow, threads", _pillow, ("spdl",)),
    Peer(
        "SPDL, OpenCV, threads",
        _opencv,
        ("spdl", "cv2", "simplejpeg"),
        equal=False,
        does="resize not antialiased",
    ),
]
