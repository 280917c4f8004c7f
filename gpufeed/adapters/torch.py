"""Batches as PyTorch tensors."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.utils.dlpack

from gpufeed.engine.device import Device
from gpufeed.errors import ConfigError
from gpufeed.order.shard import ShardOptions

__all__ = ["TorchAdapter", "make", "shard_from_torch"]


@dataclass(frozen=True)
class TorchAdapter:
    """Shares memory with DALI; labels are int64, as torch's losses want them."""

    device: torch.device

    def pictures(self, tensor: Any) -> torch.Tensor:
        """Wrap DALI's tensor."""
        return torch.utils.dlpack.from_dlpack(tensor)

    def labels(self, values: npt.NDArray[np.int32]) -> torch.Tensor:
        """Put labels beside the images, as int64."""
        return torch.from_numpy(values.astype(np.int64)).to(self.device)

    def arrays(self, values: npt.NDArray[Any]) -> torch.Tensor:
        """Put other numbers beside the images, in their own type."""
        return torch.from_numpy(values).to(self.device)

    def pieces(
        self, values: npt.NDArray[Any], offsets: npt.NDArray[np.int64]
    ) -> list[torch.Tensor]:
        """Put arrays of differing lengths beside the images, as views of one."""
        whole = self.labels(values) if values.dtype == np.int32 else self.arrays(values)
        return list(torch.split(whole, np.diff(offsets).tolist()))

    def numbers(self, values: npt.NDArray[np.int64]) -> torch.Tensor:
        """Wrap numbers as int64, in host memory."""
        return torch.from_numpy(values)

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        """Return a tensor as a NumPy array in host memory."""
        return np.asarray(torch.as_tensor(values).cpu().numpy())


def make(device: Device) -> TorchAdapter:
    """Return the adapter."""
    return TorchAdapter(torch.device(str(device)))


def shard_from_torch() -> ShardOptions:
    """Return this process's shard by torch.distributed's numbers; the only one where it is off.

    Raises:
        ConfigError: a launcher started several processes, but `init_process_group` was not called:
            each would feed everything.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        if os.environ.get("WORLD_SIZE", "1") != "1":
            raise ConfigError(
                f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but torch.distributed is not "
                "initialized; call torch.distributed.init_process_group() first, or use "
                "gpufeed.shard_from_env()"
            )
        return ShardOptions()
    return ShardOptions(torch.distributed.get_rank(), torch.distributed.get_world_size())
