"""Batches as NumPy arrays, in host memory."""

from __future__ import annotations

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

    def pictures(self, tensor: Any) -> npt.NDArray[Any]:
        """Wrap DALI's tensor; the array is read-only where it is shared."""
        if self.device.is_cuda:
            return np.asarray(tensor.as_cpu())
        return np.from_dlpack(tensor)

    def labels(self, values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Hand labels over as int32."""
        return values

    def arrays(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Hand other numbers over as they are."""
        return values

    def pieces(
        self, values: npt.NDArray[Any], offsets: npt.NDArray[np.int64]
    ) -> list[npt.NDArray[Any]]:
        """Hand arrays of differing lengths over, as views of one."""
        return np.split(values, offsets[1:-1])

    def numbers(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Hand numbers over as int64."""
        return values

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        """Return the array itself."""
        return np.asarray(values)


def make(device: Device) -> NumpyAdapter:
    """Return the adapter."""
    return NumpyAdapter(device)
