"""Batches as JAX arrays on one device."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from gpufeed.engine.device import Device
from gpufeed.errors import ConfigError, DeviceError
from gpufeed.order.shard import ShardOptions

__all__ = ["JaxAdapter", "make", "shard_from_jax"]


class JaxAdapter:
    """Shares memory with DALI; integers are int32, JAX's default.

    JAX's backend starts with the first batch and not before, since `jax.distributed.initialize`
    cannot be called after that.
    """

    def __init__(self, device: Device) -> None:
        self._device = device

    @cached_property
    def device(self) -> jax.Device:
        """JAX's device.

        Raises:
            DeviceError: JAX was installed without support for this device.
        """
        try:
            devices = jax.local_devices(backend="cuda" if self._device.is_cuda else "cpu")
            return devices[self._device.index or 0]
        except (RuntimeError, IndexError) as error:
            raise DeviceError(
                f'JAX has no device {self._device}: {error}; install "jax[cuda12]" or use '
                'device="cpu"'
            ) from None

    def images(self, tensor: Any) -> jax.Array:
        """Return DALI's tensor as a JAX array, without a copy."""
        shared: jax.Array = jax.dlpack.from_dlpack(tensor)
        return shared

    def labels(self, values: npt.NDArray[np.int32]) -> jax.Array:
        """Return labels on the images' device, as int32."""
        return self._put(values)

    def arrays(self, values: npt.NDArray[Any]) -> jax.Array:
        """Return other values on the images' device, in their own dtype."""
        return self._put(values)

    def pieces(self, values: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> list[jax.Array]:
        """Return arrays of different lengths on the images' device."""
        return [self._put(piece) for piece in np.split(values, offsets[1:-1])]

    def numbers(self, values: npt.NDArray[np.int64]) -> jax.Array:
        """Return record keys or epochs as int32, on the images' device, since `jit` needs one.

        Raises:
            ConfigError: a number does not fit; JAX would silently wrap it around.
        """
        if len(values) and values.max() > np.iinfo(np.int32).max:
            raise ConfigError(f"record_key or epoch {values.max()} does not fit in JAX's int32")
        return self._put(values.astype(np.int32))

    def _put(self, values: npt.NDArray[Any]) -> jax.Array:
        placed: jax.Array = jax.device_put(values, self.device)
        return placed

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        """Return an array as a NumPy array in host memory."""
        return np.asarray(values)


def make(device: Device) -> JaxAdapter:
    """Return the adapter for a device."""
    return JaxAdapter(device)


def shard_from_jax() -> ShardOptions:
    """Return this process's shard, from JAX's process index and count.

    Raises:
        ConfigError: `jax.distributed.initialize` was not called. To ask JAX for its processes would
            start its backend, after which it cannot be called any more.
    """
    if not jax.distributed.is_initialized():
        raise ConfigError(
            "jax.distributed is not initialized; call jax.distributed.initialize() before "
            "shard_from_jax(), or leave out shard in a single process"
        )
    return ShardOptions(jax.process_index(), jax.process_count())
