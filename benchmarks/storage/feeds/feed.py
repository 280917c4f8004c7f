"""The interface of a feed."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

__all__ = [
    "BATCH",
    "SEED",
    "SHARD",
    "WINDOW",
    "WORKERS",
    "Epoch",
    "Feed",
    "Given",
    "decode",
    "load",
]

BATCH = 32
SHARD = 20
"""Images of a shard, in formats that have shards."""
WINDOW = 100
"""Images among which libraries shuffle that shuffle shards, and images within a window."""
WORKERS = 2
"""Processes that read and decode, in libraries that do so in processes."""
SEED = 1

Int64 = npt.NDArray[np.int64]
Epoch = Callable[[int], Iterable[Sequence[int] | Int64]]


@dataclass(frozen=True)
class Given:
    """What a feed is given.

    Attributes:
        address: of the store, whose folder `format` has what `write` has written.
        format: the name of that folder.
        images: number of images.
        folder: for a cache; empty.
        room: bytes that the cache may take; 0 for none.
    """

    address: str
    format: str
    images: int
    folder: Path
    room: int


@dataclass(frozen=True)
class Feed:
    """A loader and its cache.

    Attributes:
        name: as the table has it.
        module: below `benchmarks.storage.feeds`; also the name of the format's folder.
        package: the distribution whose version is kept.
        needs: modules that must be installed.
        cache: whether it keeps what it has read.
        opens: the function of the module that opens it.
    """

    name: str
    module: str
    package: str
    needs: tuple[str, ...] = ()
    cache: bool = True
    opens: str = "open_feed"

    def missing(self) -> str:
        """The first module that is not installed; "" where all are."""
        return next((each for each in self.needs if importlib.util.find_spec(each) is None), "")


def decode(content: bytes) -> Any:
    """Return the levels of an image, uint8 (height, width, 3)."""
    with Image.open(io.BytesIO(content)) as image:
        return np.array(image.convert("RGB"))


def load(dataset: Any, set_epoch: Callable[[int], object], loader: Any = None) -> Epoch:
    """Return the batches of torch's `DataLoader`, or of the library's own."""
    import torch

    torch.set_num_threads(1)
    batches = (loader or torch.utils.data.DataLoader)(
        dataset,
        batch_size=BATCH,
        num_workers=WORKERS,
        multiprocessing_context="fork",
        persistent_workers=True,
    )

    def epoch(number: int) -> Iterable[Int64]:
        set_epoch(number)
        for batch in batches:
            yield batch["number"].numpy()

    return epoch
