"""The load of a GPU, from NVML; nothing without a GPU or pynvml.

**Not run on a GPU yet.**
"""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

__all__ = ["GpuWatch"]

_EVERY = 0.1
"""Seconds between two looks; NVML's own figures are of the last sixth of a second to a second."""


class GpuWatch:
    """Looks at the GPU again and again, on a thread, while a block runs.

    Memory is what this process and its own have added since the watch was made, as long as no other
    process takes or frees any: who is stopped does neither.

    Args:
        device: "cpu" or "cuda"; nothing is sampled on the CPU.
    """

    def __init__(self, device: str) -> None:
        self._nvml: ModuleType | None = None
        self._handle: Any = None
        if device == "cuda":
            self._nvml, self._handle = _open()
        self._before = self._used()
        self._busy: list[float] = []
        self._jpeg: list[float] = []
        self._mib: list[float] = []

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Look while the block runs."""
        self._busy, self._jpeg, self._mib = [], [], []
        if self._nvml is None:
            yield
            return
        ended = threading.Event()
        thread = threading.Thread(target=self._look, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    @property
    def figures(self) -> dict[str, float | None]:
        """Those of the last block, as fields of a `Round`: shares of time 0 to 1, memory in MiB."""
        return {
            "gpu_share": statistics.mean(self._busy) if self._busy else None,
            "jpeg_share": statistics.mean(self._jpeg) if self._jpeg else None,
            "gpu_mib": max(self._mib) if self._mib else None,
        }

    def _look(self, ended: threading.Event) -> None:
        while True:
            last = ended.wait(_EVERY)
            nvml: Any = self._nvml
            self._busy.append(nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu / 100)
            # Older bindings, and GPUs without such engines, have no answer.
            with contextlib.suppress(AttributeError, nvml.NVMLError):
                self._jpeg.append(nvml.nvmlDeviceGetJpgUtilization(self._handle)[0] / 100)
            self._mib.append((self._used() - self._before) / 2**20)
            if last:
                return

    def _used(self) -> float:
        if self._nvml is None:
            return 0.0
        return float(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used)


def _open() -> tuple[ModuleType | None, Any]:
    """NVML, and its handle of the first GPU that CUDA sees."""
    try:
        import pynvml
    except ImportError:
        return None, None
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() or "0"
    try:
        pynvml.nvmlInit()
        if first.isdecimal():
            return pynvml, pynvml.nvmlDeviceGetHandleByIndex(int(first))
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(first)
    except pynvml.NVMLError:
        return None, None
