"""The device that a loader runs on."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Self

from gpufeed._util.limits import local_rank
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, DeviceError

if TYPE_CHECKING:
    import torch

__all__ = ["Device", "resolve_device"]


class Device(str):
    """The CPU or one CUDA GPU: "cpu" or "cuda:1", a text that torch takes for a device.

    Args:
        gpu: the number of the GPU; None for the CPU.
    """

    gpu: int | None

    def __new__(cls, gpu: int | None) -> Self:
        """Make the text of a device."""
        made = super().__new__(cls, "cpu" if gpu is None else f"cuda:{gpu}")
        made.gpu = gpu
        return made

    def __getnewargs__(self) -> tuple[Any]:
        """Return what a copy is made from."""
        return (self.gpu,)

    @property
    def is_cuda(self) -> bool:
        """Whether the device is a GPU."""
        return self.gpu is not None


def gpu_count() -> int:
    """Return the number of GPUs that DALI can use; 0 without a usable driver."""
    from nvidia.dali import backend

    return int(backend.GetCUDADeviceCount())


def _current_gpu() -> int:
    """Return the GPU that torch is set to, if it runs CUDA in this process already, or else 0."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda.current_device() if cuda is not None and cuda.is_initialized() else 0


def resolve_device(name: str | torch.device, framework: str = "") -> Device:
    """Return the device "auto", "cpu", "cuda" or one GPU such as "cuda:1", or a torch.device.

    "auto" is "cuda" if there is a GPU and the framework is not "numpy", and otherwise "cpu". If the
    process sees several GPUs, "cuda" is

    - the one that torch was set to, unless that is the first, where torch starts;
    - otherwise that of the process's local rank, if its launcher (torchrun, Open MPI, MPICH, SLURM)
      sets one;
    - otherwise the first.

    Raises:
        ConfigError: the name is none of these.
        DeviceError: this machine has no such GPU.
    """
    text = str(name)
    matched = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", text)
    if matched is None:
        raise ConfigError(f'device is {short(name)}; it must be "auto", "cpu", "cuda" or "cuda:1"')
    # To NumPy, images would go back through memory that is slow to copy to.
    if text == "cpu" or (text == "auto" and framework == "numpy"):
        return Device(None)
    count = gpu_count()
    if text == "auto" and not count:
        return Device(None)
    named = matched.group(1)
    index = int(named) if named else 0
    if not named and count > 1:
        index = _current_gpu() or local_rank()
    if index >= count:
        available = f"DALI sees {count} GPU(s)" if count else "DALI sees no GPU"
        raise DeviceError(
            f'device is {short(name)}, but {available}; use device="cpu", or run `gpufeed info` to '
            "see what is missing"
        )
    return Device(index)
