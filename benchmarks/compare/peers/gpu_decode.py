"""Decoders for GPUs with transforms by torch: torchvision's and nvImageCodec.

**Not run on a GPU yet.**
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.compare.encoded import read_batches
from benchmarks.compare.peer import Peer
from benchmarks.compare.peers.torch_loader import import_transforms
from benchmarks.compare.work import MEAN, STD, Work

__all__ = ["PEERS"]


class _Transform:
    """From decoded images, uint8 CHW tensors, to a normalised batch, on their GPU."""

    def __init__(self, work: Work) -> None:
        import torch

        v2 = import_transforms()
        if work.preset == "evaluate":
            geometry = [v2.Resize(work.shorter, antialias=True), v2.CenterCrop(work.size)]
        else:
            geometry = [v2.RandomResizedCrop(work.size, antialias=True), v2.RandomHorizontalFlip()]
        self._each = v2.Compose(geometry)
        # What is the same for all images is done for the whole batch at once.
        self._batch = v2.Compose(
            [v2.ToDtype(torch.float32, scale=True), v2.Normalize(list(MEAN), list(STD))]
        )

    def __call__(self, pictures: Sequence[Any]) -> Any:
        import torch

        return self._batch(torch.stack([self._each(picture) for picture in pictures]))


def _torchvision(work: Work) -> Iterator[tuple[Any, Any]]:
    """Its batched `decode_jpeg`."""
    import numpy as np
    import torch

    transform = _Transform(work)
    from torchvision.io import ImageReadMode, decode_jpeg

    for contents, batch in read_batches(work):
        # Copied, since torch wants memory that it may write to.
        encoded = [torch.from_numpy(np.frombuffer(each, np.uint8).copy()) for each in contents]
        yield transform(decode_jpeg(encoded, mode=ImageReadMode.RGB, device="cuda")), batch


def _nvimagecodec(work: Work) -> Iterator[tuple[Any, Any]]:
    """Its decoder with all the backends that it finds."""
    import torch
    from nvidia import nvimgcodec
    from torch.utils.dlpack import from_dlpack

    decoder = nvimgcodec.Decoder(device_id=0, max_num_cpu_threads=work.cores)
    transform = _Transform(work)
    for contents, batch in read_batches(work):
        stream = torch.cuda.current_stream().cuda_stream
        pictures = [
            from_dlpack(image.to_dlpack(stream)).permute(2, 0, 1)
            for image in decoder.decode(contents, cuda_stream=stream)
        ]
        yield transform(pictures), batch


PEERS = [
    Peer(
        "torchvision decode_jpeg on the GPU, transforms there",
        _torchvision,
        ("torch", "torchvision"),
        on=("cuda",),
    ),
    Peer(
        "nvImageCodec on the GPU, torchvision transforms there",
        _nvimagecodec,
        ("torch", "torchvision", "nvidia.nvimgcodec"),
        on=("cuda",),
    ),
]
