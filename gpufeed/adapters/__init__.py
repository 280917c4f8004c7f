"""Hands batches to a framework: pixels shared through DLPack, small arrays copied."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from gpufeed.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from gpufeed.engine.device import Device

__all__ = ["Adapter", "Framework", "load_adapter", "make_adapter"]

Framework = Literal["numpy", "torch", "jax"]


class Adapter(Protocol):
    """How one framework takes its batches."""

    def pictures(self, tensor: Any) -> Any:
        """Wrap DALI's dense tensor as the framework's array, without a copy where it can be."""
        ...

    def labels(self, values: npt.NDArray[np.int32]) -> Any:
        """Put labels, int32 (n, ...), beside the images, in the type that losses take."""
        ...

    def arrays(self, values: npt.NDArray[Any]) -> Any:
        """Put other numbers, (n, ...), beside the images, in their own type."""
        ...

    def pieces(self, values: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> list[Any]:
        """Put arrays of differing lengths beside the images.

        Args:
            values: float32, or int32, which becomes the type of `labels`, (m, ...).
            offsets: int64 (n + 1), where each of the n arrays begins, and the last one ends.
        """
        ...

    def numbers(self, values: npt.NDArray[np.int64]) -> Any:
        """Wrap bookkeeping numbers, int64 (n,)."""
        ...

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        """Return a batch's array as a NumPy array in host memory."""
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


def make_adapter(framework: str, device: Device) -> Adapter:
    """Return the adapter of this name.

    Raises:
        ConfigError: no such name.
        MissingExtraError: the framework is not installed.
    """
    if framework not in get_args(Framework):
        raise ConfigError(f'framework is {framework!r}; it must be "numpy", "torch" or "jax"')
    adapter: Adapter = load_adapter(framework).make(device)
    return adapter
