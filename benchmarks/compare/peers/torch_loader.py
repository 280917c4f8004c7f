"""PyTorch's DataLoader, with Pillow, OpenCV and torchvision, at several numbers of workers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.compare.host import opencv_job, pillow_job
from benchmarks.compare.peer import Peer
from benchmarks.compare.work import MEAN, STD, Work
from gpufeed.engine.device import available_threads

__all__ = ["PEERS"]

Job = Callable[[str, int, np.random.Generator], Any]


class _Pictures:
    """A map-style dataset."""

    def __init__(self, files: list[str], size: int, job: Job) -> None:
        self._files, self._size, self._job = files, size, job
        self._rng: np.random.Generator | None = None

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if self._rng is None:
            import torch

            self._rng = np.random.default_rng(torch.initial_seed())
        return self._job(self._files[index], self._size, self._rng), index


def _torchvision_job(path: str, size: int, _: np.random.Generator) -> Any:
    return _torchvision_transform(size)(_read_pillow(path))


def _read_pillow(path: str) -> Any:
    from PIL import Image

    with Image.open(path) as image:
        return image.convert("RGB")


@functools.lru_cache
def _torchvision_transform(size: int) -> Any:
    import torch

    v2 = import_transforms()
    return v2.Compose(
        [
            v2.RandomResizedCrop(size, antialias=True),
            v2.RandomHorizontalFlip(),
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


def _open(work: Work, *, job: Job, workers: int) -> Iterator[tuple[Any, Any]]:
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1 if workers else work.cores)
    on_gpu = work.device == "cuda"
    dataset: Any = _Pictures(work.files, work.size, job)
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


def _peers() -> list[Peer]:
    kinds: list[tuple[str, Job, tuple[str, ...], bool]] = [
        ("Pillow", pillow_job, ("torch",), True),
        ("torchvision v2", _torchvision_job, ("torch", "torchvision"), True),
        ("OpenCV", opencv_job, ("torch", "cv2", "simplejpeg"), False),
    ]
    found = []
    cores = available_threads()  # what its users would take, beside what the report always has
    for name, job, needs, equal in kinds:
        for workers in sorted({0, 1, 2, 4, cores} if name == "Pillow" else {2, cores}):
            label = f"torch DataLoader, {name}, {workers} worker{'s' * (workers != 1)}"
            found.append(
                Peer(
                    label,
                    functools.partial(_open, job=job, workers=workers),
                    needs,
                    equal,
                    "" if equal else "resize not antialiased",
                )
            )
    return found


PEERS = _peers()
