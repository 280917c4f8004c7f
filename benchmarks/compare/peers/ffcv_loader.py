"""FFCV in its JPEG mode: images encoded again into one file.

Written after its ImageNet recipe. **Not run yet**: it is built from source, with OpenCV's and
libjpeg-turbo's headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.compare.packed import packed_folder
from benchmarks.compare.peer import Peer
from benchmarks.compare.work import MEAN, STD, Work

__all__ = ["PEERS"]


class _Pictures:
    """What FFCV's writer takes."""

    def __init__(self, files: list[str]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        from PIL import Image

        with Image.open(self._files[index]) as image:
            return image.convert("RGB"), index


def _open(work: Work) -> Iterator[tuple[Any, Any]]:
    import torch
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import CenterCropRGBImageDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import (
        NormalizeImage,
        RandomHorizontalFlip,
        Squeeze,
        ToDevice,
        ToTensor,
        ToTorchImage,
    )
    from ffcv.writer import DatasetWriter

    packed = packed_folder() / "pictures.beton"
    fields = {"image": RGBImageField(write_mode="jpg"), "label": IntField()}
    DatasetWriter(str(packed), fields, num_workers=work.cores).from_indexed_dataset(
        _Pictures(work.files)
    )
    side = (work.size, work.size)
    if work.preset == "evaluate":
        geometry = [CenterCropRGBImageDecoder(side, ratio=work.size / work.shorter)]
    else:
        geometry = [RandomResizedCropRGBImageDecoder(side), RandomHorizontalFlip()]
    normalise = NormalizeImage(255 * np.array(MEAN), 255 * np.array(STD), np.float32)
    if work.device == "cuda":
        device = ToDevice(torch.device("cuda"), non_blocking=True)
        rest = [ToTensor(), device, ToTorchImage(), normalise]
    else:
        rest = [normalise, ToTensor(), ToTorchImage()]
    loader = Loader(
        str(packed),
        batch_size=work.batch_size,
        num_workers=work.cores,
        order=OrderOption.RANDOM,
        # Through the page cache the whole file is mapped.
        os_cache=not work.cold,
        drop_last=True,
        pipelines={
            "image": [*geometry, *rest],
            "label": [IntDecoder(), ToTensor(), Squeeze()],
        },
    )
    while True:
        yield from loader


PEERS = [
    Peer(
        "FFCV, JPEG mode",
        _open,
        ("ffcv", "torch"),
        equal=False,
        does="JPEGs encoded again beforehand, resize by area",
    )
]
