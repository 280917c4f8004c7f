"""Handing batches to a framework: pixels shared through DLPack, small arrays copied."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    import jax
    import numpy as np
    import numpy.typing as npt

    from gpufeed.engine.device import Device

__all__ = ["Adapter", "Framework", "load_adapter", "make_adapter"]

Framework = Literal["numpy", "torch", "jax"]


class Adapter(Protocol):
    """Converts batches to the arrays of one framework."""

    def images(self, tensor: Any, parts: int) -> list[Any]:
        """Return DALI's dense tensor as arrays of equal parts, without a copy if possible."""
        # A consumer may drop it while kernels that read it still wait, on any stream. DALI's DLPack
        # deleter keeps the memory until the device has done all work queued by then, on a thread of
        # its own (DLTensorGraveyard in dali/pipeline/data/dltensor.cc), so nothing is held here.
        ...

    def to_bfloat16(self, images: Any) -> Any:
        """Round float32 images to bfloat16, to nearest even."""
        ...

    def arrays(self, values: npt.NDArray[Any]) -> Any:
        """Return values, (n, ...), on the images' device.

        Integers, int32, get the dtype that losses take; other values keep theirs.
        """
        ...

    def pieces(self, values: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> list[Any]:
        """Return arrays of different lengths on the images' device.

        Args:
            values: (m, ...), as `arrays` takes them.
            offsets: int64 (n + 1,), the start of each of the n arrays, and the end of the last.
        """
        ...

    def numbers(self, values: npt.NDArray[np.int64]) -> Any:
        """Return record keys or epochs, int64 (n,)."""
        ...

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        """Return an array of a batch as a NumPy array in host memory."""
        ...

    def annotate(self, name: str, step: int) -> AbstractContextManager[object]:
        """Return a block that the framework's profiler shows, if one is active."""
        ...

    def pace(self) -> None:
        """Bound the work that the consumer has queued on a GPU; called after each batch."""
        ...


def load_adapter(framework: str) -> ModuleType:
    """Import the module of one framework's adapter.

    Raises:
        MissingExtraError: the framework is not installed.
    """
    if framework != "numpy":
        try:
            importlib.import_module(framework)
        except ModuleNotFoundError as error:
            if error.name != framework:
                raise
            raise MissingExtraError(framework, extra=framework) from None
    return importlib.import_module(f"gpufeed.adapters.{framework}")


def make_adapter(
    framework: str, device: Device, sharding: jax.sharding.NamedSharding | None = None
) -> Adapter:
    """Return the adapter of this name.

    Args:
        framework: "numpy", "torch" or "jax".
        device: the device that images are made on.
        sharding: for "jax" only, the sharding of every array.

    Raises:
        ConfigError: there is no such framework, or the device cannot serve the sharding.
        DeviceError: the framework was installed without support for the device.
        MissingExtraError: the framework is not installed.
    """
    if framework not in get_args(Framework):
        raise ConfigError(f'framework is {short(framework)}; it must be "numpy", "torch" or "jax"')
    options = {} if sharding is None else {"sharding": sharding}
    adapter: Adapter = load_adapter(framework).make(device, **options)
    return adapter
