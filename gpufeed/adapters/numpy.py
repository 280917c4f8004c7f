"""Batches as NumPy arrays, in host memory."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.engine.device import Device

__all__ = ["NumpyAdapter", "make"]


@dataclass(frozen=True)
class NumpyAdapter:
    """Shares host memory with DALI; images made on a GPU are copied to the host."""

    device: Device

    def images(self, tensor: Any, parts: int) -> list[npt.NDArray[Any]]:
        """Return DALI's tensor in parts, which are read-only if they share DALI's memory."""
        whole = np.asarray(tensor.as_cpu()) if self.device.is_cuda else np.from_dlpack(tensor)
        return np.split(whole, parts)

    def to_bfloat16(self, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Not implemented: NumPy has no bfloat16, and `Loader` refuses it."""
        raise NotImplementedError

    def arrays(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values unchanged."""
        return values

    def pieces(
        self, values: npt.NDArray[Any], offsets: npt.NDArray[np.int64]
    ) -> list[npt.NDArray[Any]]:
        """Return arrays of different lengths, as views of one array."""
        return np.split(values, offsets[1:-1])

    def numbers(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return record keys or epochs as int64."""
        return values

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        """Return the array itself."""
        return np.asarray(values)

    def annotate(self, name: str, step: int) -> AbstractContextManager[object]:  # noqa: ARG002
        """Return a block that is shown nowhere: NumPy has no profiler."""
        return nullcontext()

    def pace(self) -> None:
        """Do nothing: no consumer of NumPy arrays queues work on them."""


def make(device: Device) -> NumpyAdapter:
    """Return the adapter for a device."""
    return NumpyAdapter(device)
