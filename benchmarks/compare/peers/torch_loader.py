"""PyTorch's DataLoader, with Pillow, OpenCV and torchvision, at several numbers of workers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.compare.host import opencv_job, pillow_job
from benchmarks.compare.peer import Peer, with_workers
from benchmarks.compare.work import MEAN, STD, Work

__all__ = ["PEERS"]


class _Pictures:
    """A map-style dataset."""

    def __init__(self, work: Work, job: Callable[..., Any]) -> None:
        self._files, self._work, self._job = work.files, work, job
        self._rng: np.random.Generator | None = None

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if self._rng is None:
            import torch

            self._rng = np.random.default_rng(torch.initial_seed())
        return self._job(self._files[index], self._work, self._rng), index


def _torchvision_job(path: str, work: Work, _: np.random.Generator) -> Any:
    return _torchvision_transform(work.size, work.shorter, work.preset)(_read_pillow(path))


def _read_pillow(path: str) -> Any:
    from PIL import Image

    with Image.open(path) as image:
        return image.convert("RGB")


@functools.lru_cache
def _torchvision_transform(size: int, shorter: int, preset: str) -> Any:
    import torch

    v2 = import_transforms()
    if preset == "evaluate":
        geometry = [v2.Resize(shorter, antialias=True), v2.CenterCrop(size)]
    else:
        geometry = [v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip()]
    return v2.Compose(
        [
            *geometry,
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )


def import_transforms() -> Any:
    """Import torchvision's transforms, which a torch without CUDA lets fail for want of two ops."""
    import torch

    try:
        from torchvision.transforms import v2
    except RuntimeError:
        make: Any = torch.library.Library
        library = make("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)
        from torchvision.transforms import v2
    return v2


_KEPT: list[Any] = []


def _open(work: Work, *, job: Callable[..., Any], workers: int) -> Iterator[tuple[Any, Any]]:
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1 if workers else work.cores)
    on_gpu = work.device == "cuda"
    dataset: Any = _Pictures(work, job)
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=work.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        pin_memory=on_gpu,
        persistent_workers=workers > 0,
        prefetch_factor=2 if workers else None,
    )
    while True:
        for image, label in loader:
            yield (image.cuda(non_blocking=True) if on_gpu else image), label


def _torch(name: str, job: Callable[..., Any], *workers: int, **options: Any) -> list[Peer]:
    opened = functools.partial(_open, job=job)
    return with_workers(f"torch DataLoader, {name}", opened, *workers, **options)


PEERS = [
    *_torch("Pillow", pillow_job, 0, 1, 2, 4, needs=("torch",)),
    *_torch("torchvision v2", _torchvision_job, 2, needs=("torch", "torchvision")),
    *_torch(
        "OpenCV",
        opencv_job,
        2,
        needs=("torch", "cv2", "simplejpeg"),
        equal=False,
        does="resize not antialiased",
    ),
]
