"""torch's DataLoader in a gpufeed loader's place: what a trainer is to make of the same order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data import Sampler as TorchSampler

from gpufeed import Sampler

BATCH = 4


class Order(TorchSampler[int]):
    """The order of a gpufeed sampler: that of the epoch which was announced last."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.sampler.epoch_size

    def __iter__(self) -> Iterator[int]:
        first = self.epoch * len(self)
        return (self.sampler[first + place].record_key for place in range(len(self)))


class Records(Dataset[dict[str, Any]]):
    """Records that know no more than their key."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, key: int) -> dict[str, Any]:
        return {"record_key": key, "label": key % 3, "image": torch.zeros(3, 24, 24)}


def control(sampler: Sampler, *, drop_last: bool = True) -> DataLoader[Any]:
    records = Records(sampler.num_records)
    return DataLoader(records, BATCH, sampler=Order(sampler), drop_last=drop_last)
