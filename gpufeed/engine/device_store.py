"""Images in one block of a device's memory, which DALI reads in place."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from nvidia.dali import tensors

from gpufeed._util.gpu_memory import GpuMemory

if TYPE_CHECKING:
    from gpufeed.engine.device import Device

__all__ = ["DeviceStore"]


class DeviceStore:
    """Images by number, each written once, in memory of this process alone.

    Args:
        sizes: int64 (n, 2), height and width of each image.
        device: where they are.

    Raises:
        MemoryError: the device does not give the memory.
    """

    def __init__(self, sizes: npt.NDArray[np.int64], device: Device) -> None:
        lengths = 3 * sizes.prod(axis=1)
        self._sizes = sizes
        self._ends = np.cumsum(lengths)
        self._starts = self._ends - lengths
        self._gpu = device.gpu
        size = int(self._ends[-1])
        if device.gpu is None:
            # Pages take memory when they are first written.
            self._whole: Any = np.empty(size, np.uint8)
            self._address: int = self._whole.ctypes.data
        else:
            self._whole = GpuMemory(size, device.gpu)
            self._address = self._whole.address

    def put(self, number: int, image: Any) -> Any:
        """Write DALI's tensor of an image on the device; return the tensor of what is written.

        The memory lives as long as such a tensor.
        """
        start = int(self._starts[number])
        image.copy_to_external(ctypes.c_void_p(self._address + start))
        height, width = self._sizes[number].tolist()
        shape = (height, width, 3)
        if self._gpu is None:
            pixels = self._whole[start : self._ends[number]].reshape(shape)
            return tensors.TensorCPU(pixels, "HWC")
        view = _View(self._whole, self._address + start, shape)
        return tensors.TensorGPU(view, "HWC", self._gpu)

    def close(self) -> None:
        """Let go of the memory, also if an error's traceback keeps this object alive."""
        self._whole = None


class _View:
    """An image in the memory of a GPU, by NumPy's interface for such arrays."""

    def __init__(self, memory: GpuMemory, address: int, shape: tuple[int, ...]) -> None:
        self._memory = memory
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }
