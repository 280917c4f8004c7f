"""The load of a GPU, from NVIDIA's management library, which comes with the driver.

It is the share of the last sixth of a second to a second, depending on the model, in which any
kernel ran: a GPU may count as fully loaded and yet do little. Not run on a GPU yet.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Samples", "reader", "sampled"]

Samples = list[tuple[float, float]]
"""Seconds since the beginning, and the share, 0 to 1."""

_EVERY = 0.1
"""Seconds between samples."""


class _Rates(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


def reader(uuid: str, library: Any = None) -> Callable[[], float] | None:
    """Return a function that reads a GPU's share, 0 to 1; None where the library has no answer.

    Args:
        uuid: the GPU's, as torch has it.
        library: NVML, loaded; None loads it.
    """
    if library is None:
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return None
    handle, rates = ctypes.c_void_p(), _Rates()
    name = f"GPU-{uuid.removeprefix('GPU-')}".encode()
    if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByUUID(name, ctypes.byref(handle)):
        return None

    def read() -> float:
        failed = library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates))
        return float("nan") if failed else rates.gpu / 100

    # Parts of a card that is split have no figure of their own.
    return None if read() != read() else read


@contextlib.contextmanager
def sampled(read: Callable[[], float] | None) -> Iterator[Samples | None]:
    """Sample on a thread while the block runs; None where there is nothing to read."""
    if read is None:
        yield None
        return
    samples: Samples = []
    began, over = time.perf_counter(), threading.Event()

    def run() -> None:
        while not over.wait(_EVERY):
            share = read()
            if share == share:
                samples.append((time.perf_counter() - began, share))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()
