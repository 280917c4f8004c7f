"""Memory of a GPU, asked of the CUDA driver alone.

It has not been run on a GPU yet.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Iterator
from typing import Any

__all__ = ["GpuMemory", "free_gpu_memory"]


class GpuMemory:
    """Uninitialized memory of a GPU, for as long as this object lives.

    Args:
        size: bytes.
        gpu: the number of the GPU.

    Attributes:
        address: the memory's address on the GPU.

    Raises:
        MemoryError: the driver does not give it.
    """

    def __init__(self, size: int, gpu: int) -> None:
        address = ctypes.c_uint64()
        with _current(gpu) as cuda:
            _check(cuda, cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(1, size))))
        self.address = address.value
        weakref.finalize(self, _free, self.address, gpu).atexit = False


def free_gpu_memory(gpu: int) -> int:
    """Return the memory of a GPU that is free, in bytes; `MemoryError` if the driver fails."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with _current(gpu) as cuda:
        _check(cuda, cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value


def _free(address: int, gpu: int) -> None:
    with _current(gpu) as cuda:
        cuda.cuMemFree_v2(ctypes.c_uint64(address))


@contextlib.contextmanager
def _current(gpu: int) -> Iterator[Any]:
    """Make the context that DALI and frameworks share current; yield the driver's library."""
    try:
        cuda: Any = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise MemoryError(str(error)) from error
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _check(cuda, cuda.cuInit(0))
    _check(cuda, cuda.cuDeviceGet(ctypes.byref(device), gpu))
    # Never released, since memory is lost with the last use of the context.
    _check(cuda, cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    _check(cuda, cuda.cuCtxPushCurrent_v2(context))
    try:
        yield cuda
    finally:
        cuda.cuCtxPopCurrent_v2(ctypes.byref(context))


def _check(cuda: Any, code: int) -> None:
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        raise MemoryError(text.value.decode() if text.value else f"CUDA error {code}")
