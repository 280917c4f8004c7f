"""Which device a loader runs on."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from gpufeed.errors import ConfigError, DeviceError

__all__ = ["Device", "resolve_device"]


@dataclass(frozen=True)
class Device:
    """The CPU (`index` None) or one CUDA GPU."""

    index: int | None

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.index is not None

    def __str__(self) -> str:
        return "cpu" if self.index is None else f"cuda:{self.index}"


def gpu_count() -> int:
    """How many GPUs DALI can use; 0 where there is no usable driver."""
    from nvidia.dali import backend

    return int(backend.GetCUDADeviceCount())


# What launchers call a process's number among those of its machine: torchrun, Open MPI, MPICH and
# Intel MPI, SLURM.
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


def resolve_device(name: str) -> Device:
    """Return the device of this name: "auto", "cpu", "cuda" or one GPU, as "cuda:1".

    "cuda" is the GPU of this process's number on its machine where a launcher (torchrun, Open MPI,
    MPICH, SLURM) gives it one and it sees several GPUs, else the first; "auto" is "cuda" where
    there is a GPU, else "cpu".

    Raises:
        ConfigError: no such name.
        DeviceError: there is no such GPU here.
    """
    matched = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", name) if isinstance(name, str) else None
    if matched is None:
        raise ConfigError(f'device is {name!r}; it must be "auto", "cpu", "cuda" or "cuda:1"')
    if name == "cpu":
        return Device(None)
    count = gpu_count()
    if name == "auto" and not count:
        return Device(None)
    named = matched.group(1)
    index = int(named) if named else _local_rank() if count > 1 else 0
    if index >= count:
        there = f"DALI sees {count} GPU(s)" if count else "DALI sees no GPU here"
        raise DeviceError(
            f'device is {name!r}, but {there}; use device="cpu", or see what `gpufeed info` finds'
        )
    return Device(index)


def _local_rank() -> int:
    numbers = (os.environ.get(variable, "") for variable in _LOCAL_RANKS)
    return next((int(number) for number in numbers if number.isdecimal()), 0)
