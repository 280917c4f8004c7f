"""Batches as PyTorch tensors."""

from __future__ import annotations

import os
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.utils.dlpack

from gpufeed.engine.device import Device
from gpufeed.errors import ConfigError, DeviceError
from gpufeed.order.shard import ShardOptions

__all__ = ["TorchAdapter", "make", "shard_from_torch"]

_MAX_AHEAD = 4
"""Batches of work that a consumer may queue on a GPU before `pace` waits."""


@dataclass(frozen=True)
class TorchAdapter:
    """Shares memory with DALI; integers are int64, which torch's losses require."""

    device: torch.device
    _queued: deque[torch.cuda.Event] = field(default_factory=deque, init=False, compare=False)

    def images(self, tensor: Any, parts: int) -> list[torch.Tensor]:
        """Return DALI's tensor as torch tensors, without a copy."""
        # On a GPU, torch passes its current stream, which then waits for the images if it must.
        whole = torch.utils.dlpack.from_dlpack(tensor)
        return [whole] if parts == 1 else list(whole.chunk(parts))

    def to_bfloat16(self, images: torch.Tensor) -> torch.Tensor:
        """Round float32 images to bfloat16, to nearest even."""
        return images.to(torch.bfloat16)

    def arrays(self, values: npt.NDArray[Any]) -> torch.Tensor:
        """Return values on the images' device: integers as int64, others in their own dtype."""
        return self._put(values.astype(np.int64) if values.dtype == np.int32 else values)

    def _put(self, values: npt.NDArray[Any]) -> torch.Tensor:
        tensor = torch.from_numpy(values)
        if self.device.type == "cuda":
            # A copy from pageable memory would wait for all that the consumer has queued on its
            # stream. torch reuses pinned memory only once the copies from it have run, by events
            # (torch/include/ATen/core/CachingHostAllocator.h, "HostAllocator design").
            tensor = tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor

    def pieces(
        self, values: npt.NDArray[Any], offsets: npt.NDArray[np.int64]
    ) -> list[torch.Tensor]:
        """Return arrays of different lengths on the images' device, as views of one tensor."""
        return list(torch.split(self.arrays(values), np.diff(offsets).tolist()))

    def numbers(self, values: npt.NDArray[np.int64]) -> torch.Tensor:
        """Return record keys or epochs as int64, in host memory."""
        return torch.from_numpy(values)

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        """Return a tensor as a NumPy array in host memory, bfloat16 as float32."""
        tensor = torch.as_tensor(values)
        tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
        return np.asarray(tensor.cpu().numpy())

    def annotate(self, name: str, step: int) -> AbstractContextManager[object]:  # noqa: ARG002
        """Return a block for `torch.profiler`, which sees other threads only if told to."""
        # Without a profiler, record_function would still take ten microseconds. The flag is that
        # of the process, and private; torch's public ones are those of a thread.
        if not getattr(torch.autograd.profiler, "_is_profiler_enabled", True):
            return nullcontext()
        return torch.profiler.record_function(name)

    def pace(self) -> None:
        """Wait until the GPU has at most a few batches of the consumer's work left to do.

        Dropped images keep their memory until the kernels queued before have run. With nothing to
        wait for, a loop of few launches, as of CUDA graphs, would queue up the whole GPU memory.
        Only work on the stream that is current when a batch is taken counts.
        """
        if self.device.type != "cuda":
            return
        # Blocking: a thread that waits for it leaves its core to others.
        event: torch.cuda.Event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        self._queued.append(event)
        if len(self._queued) > _MAX_AHEAD:
            self._queued.popleft().synchronize()


def make(device: Device) -> TorchAdapter:
    """Return the adapter for a device.

    Raises:
        DeviceError: this build of PyTorch cannot use the device.
    """
    if device.is_cuda and not torch.cuda.is_available():
        raise DeviceError(
            f"device is {device}, but PyTorch {torch.__version__} cannot use it; install a CUDA "
            "build that suits the driver (https://pytorch.org/get-started has the command), or "
            'pass device="cpu"'
        )
    return TorchAdapter(torch.device(device))


def shard_from_torch() -> ShardOptions:
    """Return this process's shard, from torch.distributed's rank and world size.

    Without torch.distributed, return the only shard.

    Raises:
        ConfigError: a launcher started several processes, but `init_process_group` was not called,
            so each process would feed all records.
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
