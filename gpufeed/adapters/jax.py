"""Batches as JAX arrays, on one device or over a mesh of devices."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import short
from gpufeed.engine.device import Device
from gpufeed.errors import ConfigError, DeviceError
from gpufeed.order.shard import ShardOptions

__all__ = ["JaxAdapter", "ShardedJaxAdapter", "make", "shard_from_jax", "shard_from_sharding"]


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
            DeviceError: JAX cannot use this device in this process.
        """
        try:
            local = jax.local_devices(backend="cuda" if self._device.is_cuda else "cpu")
        except RuntimeError as error:
            raise DeviceError(
                f"device is {self._device}, but JAX cannot use it: {error}; check JAX_PLATFORMS "
                "and the installation of JAX, or pass another device"
            ) from None
        # By the driver's number: jax.distributed may show a process only its own GPU.
        for each in local:
            if each.local_hardware_id == (self._device.gpu or 0):
                return each
        own = ", ".join(f"cuda:{each.local_hardware_id}" for each in local)
        raise DeviceError(
            f"device is {self._device}, but in this process JAX has only {own}; pass one of these"
        )

    def images(self, tensor: Any, parts: int) -> list[jax.Array]:
        """Return DALI's tensor as JAX arrays, without a copy if there is one part."""
        whole: jax.Array = jax.dlpack.from_dlpack(tensor)
        return [whole] if parts == 1 else jax.numpy.split(whole, parts)

    def to_bfloat16(self, images: jax.Array) -> jax.Array:
        """Round float32 images to bfloat16, to nearest even."""
        return images.astype(jax.numpy.bfloat16)

    def arrays(self, values: npt.NDArray[Any]) -> jax.Array:
        """Return values on the images' device, in their own dtype."""
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
        # Documented as always asynchronous; JAX holds `values` until the transfer is done.
        placed: jax.Array = jax.device_put(values, self.device)
        return placed

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        """Return an array as a NumPy array in host memory."""
        return np.asarray(values)

    def annotate(self, name: str, step: int) -> AbstractContextManager[object]:
        """Return a block for `jax.profiler`; without a trace it costs under a microsecond."""
        return jax.profiler.TraceAnnotation(name, step=step)

    def pace(self) -> None:
        """Do nothing: XLA itself queues 32 programs at most (`max_inflight_computations`)."""


class ShardedJaxAdapter(JaxAdapter):
    """Makes global arrays with a sharding of their first dimension.

    Every process passes its own rows. Each part goes from host memory directly to its device; on
    the CPU it shares DALI's memory. Images made on the only device that this process has in the
    sharding stay there.

    Args:
        device: the device that images are made on.
        sharding: as for `shard_from_sharding`.

    Raises:
        ConfigError: images are made on a GPU that is not this process's only device.
    """

    def __init__(self, device: Device, sharding: jax.sharding.NamedSharding) -> None:
        super().__init__(device)
        self._sharding = sharding
        self._shards = shard_from_sharding(sharding)[0].shard_count
        own = sharding.addressable_devices
        self._stays = len(own) == 1 and own == {self.device}
        if device.is_cuda and not self._stays:
            raise ConfigError(
                f"DALI makes batches on {device}, but in this process sharding has "
                f"{sorted(map(str, own))}; start one process for each GPU, or pass "
                'device="cpu", which makes batches in host memory and puts each part on its device'
            )

    def images(self, tensor: Any, parts: int) -> list[jax.Array]:
        """Return DALI's tensor as this process's part of global arrays."""
        if not self._stays:
            return [self._put(part) for part in np.split(np.from_dlpack(tensor), parts)]
        make = jax.make_array_from_single_device_arrays
        return [
            make(self._global_shape(part.shape), self._sharding, [part])
            for part in super().images(tensor, parts)
        ]

    def to_numpy(self, values: Any) -> npt.NDArray[Any]:
        """Return this process's rows of an array as a NumPy array in host memory."""
        if not isinstance(values, jax.Array) or values.is_fully_addressable:
            return super().to_numpy(values)
        parts = {part.index[0].start or 0: part.data for part in values.addressable_shards}
        return np.concatenate([np.asarray(parts[start]) for start in sorted(parts)])

    def _put(self, values: npt.NDArray[Any]) -> jax.Array:
        place: Any = jax.make_array_from_process_local_data
        placed: jax.Array = place(self._sharding, values, self._global_shape(values.shape))
        return placed

    def _global_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0] * self._shards, *shape[1:])


def make(device: Device, sharding: jax.sharding.NamedSharding | None = None) -> JaxAdapter:
    """Return the adapter for a device, or for a sharding if there is one.

    Raises:
        ConfigError: see `ShardedJaxAdapter`.
        DeviceError: JAX was installed without support for the device, or set up without it.
    """
    if sharding is not None:
        return ShardedJaxAdapter(device, sharding)
    if device.is_cuda:
        _check_cuda(device)
    return JaxAdapter(device)


def _check_cuda(device: Device) -> None:
    """Raise `DeviceError` if JAX has no backend for CUDA, without starting the one that it has."""
    # The entry points by which JAX finds its plugins: "xla_cuda12", "xla_cuda13".
    found = any("cuda" in plugin.name for plugin in entry_points(group="jax_plugins"))
    named: str | None = jax.config.jax_platforms  # type: ignore[attr-defined]
    if not found or (named and not {"cuda", "gpu"} & set(named.split(","))):
        raise DeviceError(
            f"device is {device}, but JAX {jax.__version__} has no CUDA backend (JAX_PLATFORMS is "
            f'{named!r}); run pip install "jax[cuda12]" and leave JAX_PLATFORMS unset, or pass '
            'device="cpu"'
        )


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


def shard_from_sharding(sharding: jax.sharding.NamedSharding) -> tuple[ShardOptions, int]:
    """Return the part of a batch that this process has in a sharding.

    Processes that a sharding gives the same rows take the same part.

    Args:
        sharding: divides the first dimension of arrays, and no other.

    Returns:
        This process's shard, and the number of parts into which its own devices divide that.

    Raises:
        ConfigError: it is no sharding of the first dimension, or the rows of a process do not lie
            together.
    """
    if not isinstance(sharding, jax.sharding.NamedSharding) or len(sharding.spec) > 1:
        raise ConfigError(
            f"sharding is {short(sharding)}; it must be a NamedSharding that divides the first "
            'dimension alone, such as NamedSharding(mesh, PartitionSpec("data"))'
        )
    rows = len(sharding.device_set)
    starts: dict[int, set[int]] = {}
    device: jax.Device
    for device, (index, *_) in sharding.devices_indices_map((rows,)).items():
        starts.setdefault(device.process_index, set()).add(index.start or 0)
    own = starts.get(jax.process_index())
    if own is None:
        raise ConfigError(f"sharding is {sharding}, which has no device of this process")
    parts = sorted({tuple(sorted(each)) for each in starts.values()})
    every = [start for part in parts for start in part]
    if len({len(part) for part in parts}) > 1 or every != sorted(set(every)):
        raise ConfigError(
            f"sharding gives processes the rows that begin at {parts} of every {rows}; those of a "
            "process must be contiguous, and as many as any other's: order the mesh's devices as "
            "jax.devices() does"
        )
    return ShardOptions(parts.index(tuple(sorted(own))), len(parts)), len(own)
