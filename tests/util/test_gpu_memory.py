"""Memory of a GPU, by a driver that is played: what is asked of it, and its errors."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import pytest

from gpufeed._util.gpu_memory import GpuMemory, free_gpu_memory


class Driver:
    """Two GPUs of 1000 bytes, whose memory may be touched while their context is current."""

    def __init__(self) -> None:
        self.current: list[int] = []
        self.blocks: dict[int, tuple[int, int]] = {}

    def cuInit(self, _: int) -> int:  # noqa: N802 - the driver's names
        return 0

    def cuDeviceGet(self, device: Any, number: int) -> int:  # noqa: N802
        device._obj.value = number
        return 0 if number < 2 else 101

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:  # noqa: N802
        context._obj.value = 70 + device.value
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:  # noqa: N802
        self.current.append(context.value - 70)
        return 0

    def cuCtxPopCurrent_v2(self, context: Any) -> int:  # noqa: N802
        context._obj.value = 70 + self.current.pop()
        return 0

    @property
    def free(self) -> int:
        return 1000 - sum(size for gpu, size in self.blocks.values() if gpu == self.current[-1])

    def cuMemGetInfo_v2(self, free: Any, total: Any) -> int:  # noqa: N802
        free._obj.value, total._obj.value = self.free, 1000
        return 0

    def cuMemAlloc_v2(self, address: Any, size: Any) -> int:  # noqa: N802
        if size.value > self.free:
            return 2
        address._obj.value = (1 << 40) + len(self.blocks)
        self.blocks[address._obj.value] = self.current[-1], size.value
        return 0

    def cuMemFree_v2(self, address: Any) -> int:  # noqa: N802
        gpu, _ = self.blocks.pop(address.value)
        assert gpu == self.current[-1]
        return 0

    def cuGetErrorString(self, code: int, text: Any) -> int:  # noqa: N802
        text._obj.value = {2: b"out of memory", 101: b"invalid device ordinal"}[code]
        return 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    played = Driver()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: played)
    return played


def test_memory_is_taken_and_given_back(driver: Driver) -> None:
    memory = GpuMemory(600, 1)
    assert memory.address == 1 << 40
    assert (free_gpu_memory(0), free_gpu_memory(1)) == (1000, 400)
    with pytest.raises(MemoryError, match=r"^out of memory$"):
        GpuMemory(401, 1)
    del memory
    gc.collect()
    assert free_gpu_memory(1) == 1000
    assert not driver.current


def test_a_gpu_that_is_not_there_has_no_memory(driver: Driver) -> None:
    with pytest.raises(MemoryError, match=r"^invalid device ordinal$"):
        free_gpu_memory(2)
    assert not driver.current


def test_no_driver_has_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(MemoryError, match=r"^libcuda.so.1: cannot open"):
        free_gpu_memory(0)
