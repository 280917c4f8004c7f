"""Grain: its DataLoader with worker processes, and its MapDataset with threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.compare.host import opencv_job, pillow_job
from benchmarks.compare.peer import Peer, with_workers
from benchmarks.compare.work import Work

__all__ = ["PEERS"]


class _Source:
    """A random-access data source: the places of the files."""

    def __init__(self, files: list[str]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[str, int]:
        return self._files[index], int(index)


def _data_loader(work: Work, *, workers: int) -> Iterator[tuple[Any, Any]]:
    from absl import flags
    from grain import python as grain

    # Grain's workers read absl's flags, which a program without any has to call parsed.
    flags.FLAGS.mark_as_parsed()

    class Prepare(grain.RandomMapTransform):  # type: ignore[misc]
        def random_map(self, element: tuple[str, int], rng: np.random.Generator) -> tuple[Any, int]:
            return pillow_job(element[0], work, rng), element[1]

    loader = grain.DataLoader(
        data_source=_Source(work.files),
        sampler=grain.IndexSampler(len(work.paths), shuffle=True, seed=0),
        operations=[Prepare(), grain.Batch(work.batch_size, drop_remainder=True)],
        worker_count=workers,
        worker_buffer_size=2,
    )
    yield from _on(work, loader)


def _map_dataset(work: Work) -> Iterator[tuple[Any, Any]]:
    import grain

    def prepare(element: tuple[str, int], rng: np.random.Generator) -> tuple[Any, int]:
        return opencv_job(element[0], work, rng), element[1]

    dataset = (
        grain.MapDataset.source(_Source(work.files))
        .seed(0)
        .shuffle()
        .repeat()
        .random_map(prepare)
        .to_iter_dataset(grain.ReadOptions(num_threads=work.cores, prefetch_buffer_size=64))
        .batch(work.batch_size, drop_remainder=True)
    )
    yield from _on(work, dataset)


def _on(work: Work, batches: Any) -> Iterator[tuple[Any, Any]]:
    for image, label in batches:
        if work.device == "cuda":
            import jax

            yield jax.device_put(image), label
        else:
            yield image, label


PEERS = [
    *with_workers("Grain DataLoader, Pillow", _data_loader, 2, needs=("grain",)),
    Peer(
        "Grain MapDataset, OpenCV, threads",
        _map_dataset,
        ("grain", "cv2", "simplejpeg"),
        equal=False,
        does="resize not antialiased",
    ),
]
