"""The cache of images: what transforms do alike in every epoch is decoded once, and then read."""

from __future__ import annotations

import hashlib
import platform
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from gpufeed._util.dali_build import version_of
from gpufeed._util.gpu_memory import free_gpu_memory
from gpufeed._util.limits import available_memory, local_world_size
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, PipelineError
from gpufeed.open.base import Pixels
from gpufeed.open.kinds import THREADS, Kind
from gpufeed.open.store import Store, filled_bytes
from gpufeed.plan.stages import Resize, Stages, Window, calls_functions, map_arrays
from gpufeed.source.base import fingerprint_of

if TYPE_CHECKING:
    from gpufeed.open.resize import Resizer
    from gpufeed.plan.planner import BatchPlan, Planner
    from gpufeed.plan.prefix import Prefix
    from gpufeed.source.base import Source

__all__ = ["Cache", "CacheSettings", "amount", "make_settings"]

_SHARE, _SHARE_OF_GPU = 0.9, 0.5
"""Shares of the available memory that a cache may take; a GPU has to hold the model too."""
_PACKAGES = ("gpufeed", "nvidia-nvimgcodec-cu12", "nvidia-nvimgcodec-cu13", "cykooz.resizer")
"""The packages that make the images."""

Decode = Callable[[tuple[int, int], tuple[int, int]], Pixels | None]
"""Decodes a window, given its start and shape; None if it cannot be decoded."""


@dataclass(frozen=True)
class CacheSettings:
    """All that decides the images of a cache, and where they are kept.

    Attributes:
        place: "host" memory, or that of the loader's "device".
        gpu: the number of the GPU if the images are kept on one, or None.
        prefix: what is kept of each record.
        source: the encoded images.
        sizes: int (n, 2), the manifest's height and width of each image.
        max_pixels: as for `Loader`.
        own_decoder: whether a user's own decoder makes the images.
        reduce_depth: as for `Manifest`.
    """

    place: Literal["host", "device"]
    gpu: int | None
    prefix: Prefix
    source: Source
    sizes: npt.NDArray[np.integer]
    max_pixels: int
    own_decoder: bool
    reduce_depth: bool

    @property
    def size(self) -> int:
        """Bytes of all images."""
        return 3 * int(self.prefix.sizes.prod(axis=1).sum())

    def name(self) -> str | None:
        """Return a name that says all that decides the images; None if they cannot be shared."""
        images = fingerprint_of(self.source)
        if self.place == "device":
            return None
        # Only x86 lets all processors see an image's flag after its pixels, as they are written.
        if images is None or self.own_decoder or platform.machine() != "x86_64":
            return None
        digest = hashlib.sha256()

        def add(values: npt.NDArray[Any]) -> str:
            digest.update(values.tobytes())
            return f"{values.dtype} {values.shape}"

        # Sizes and `max_pixels` decide which images are bad, and these are not kept.
        kept = map_arrays(add, (self.prefix.window, self.prefix.resize))
        sizes = add(self.prefix.sizes), add(self.sizes), self.max_pixels
        installed = Path(__file__).parent, [version_of(package) for package in _PACKAGES]
        digest.update(repr((kept, sizes, images, self.reduce_depth, installed)).encode())
        return f"gpufeed-{digest.hexdigest()}"

    def check(self) -> None:
        """Raise `ConfigError` if the images do not fit into the memory that is available."""
        processes, share = local_world_size(), _SHARE
        if self.gpu is None:
            free = available_memory()
        else:
            # Processes take a GPU each, and those that share one find less of it free.
            processes, share = 1, _SHARE_OF_GPU
            try:
                free = free_gpu_memory(self.gpu)
            except MemoryError as error:
                raise ConfigError(
                    f'cache="device" finds no memory of cuda:{self.gpu}: {error}'
                ) from error
        free, needed = int(share * free), self.size * processes
        if needed <= free:
            return
        name = self.name()
        if name is not None:
            needed, processes = self.size - filled_bytes(name), 1
        if needed > free:
            each = "" if processes == 1 else f" in each of {processes} processes"
            raise ConfigError(
                f'cache="{self.place}" needs {amount(needed)} more memory for '
                f"{len(self.prefix.sizes):,} images ({amount(self.size)}{each}), but "
                f"{amount(free)} may be used; take fewer records (manifest.filter) or smaller "
                "images, or leave out cache"
            )


def make_settings(
    cache: object,
    planner: Planner,
    max_pixels: int,
    *,
    gpu: int | None,
    own_decoder: bool,
    kinds: Collection[Kind],
    further: bool,
) -> CacheSettings | None:
    """Return the settings of a loader's cache; None without one.

    Args:
        cache: "host", "device" or None.
        planner: plans the loader's batches.
        max_pixels: as for `Loader`.
        gpu: the number of the loader's GPU, or None on the CPU.
        own_decoder: whether a user's own decoder makes the images.
        kinds: the decoders that open images.
        further: whether records have further images.

    Raises:
        ConfigError: the cache cannot be had, or not with the other options.
    """
    if cache is None:
        return None
    prefix, stages = planner.prefix(), planner.stages
    if cache == "host":
        if {*kinds} != {THREADS}:
            raise ConfigError(
                'cache is "host", but here the DALI graph decodes images; pass '
                'opener="threads", or cache="device"'
            )
    elif cache == "device":
        if further:
            raise ConfigError(
                'cache is "device", but masks and depth maps of targets are made by threads of '
                'the host; pass cache="host", or leave out cache'
            )
        if {*kinds} != {THREADS}:
            prefix = prefix.in_graph(stages)
        _check_after(prefix, stages, kinds)
    else:
        raise ConfigError(
            f'cache is {short(cache)}; it must be "host", "device", None, or a list of '
            "MemoryCache and DiskCache"
        )
    images = planner.images
    settings = CacheSettings(
        cache,
        gpu if cache == "device" else None,
        prefix,
        images.source,
        images.sizes(),
        max_pixels,
        own_decoder,
        images.reduce_depth,
    )
    settings.check()
    return settings


def _check_after(prefix: Prefix, stages: Stages, kinds: Collection[Kind]) -> None:
    """Raise `ConfigError` if stages after the prefix can only run on threads of the host.

    Args:
        prefix: what is kept on the device.
        stages: the stages of any batch.
        kinds: what opens images.
    """
    if calls_functions(stages):
        raise ConfigError(
            'cache is "device", from where no image comes back to be given to a Lambda; pass '
            'cache="host", or write a PixelTransform with DALI operators'
        )
    resizes = any(stage.resize for each in prefix.after(stages).openings for stage in each)
    if resizes and THREADS in kinds:
        raise ConfigError(
            'cache is "device", but threads of the host resize another part of an image in each '
            'epoch, for which it would have to come back; pass cache="host", or opener="graph" (on '
            'a GPU "cuda", and no images above 2^24 pixels, which threads open)'
        )


class Cache:
    """The kept images of a run, in memory shared by processes that keep the same ones.

    Args:
        settings: all that decides them.

    Attributes:
        prefix: what is kept of each record.
        ready: bool (n,), which records are kept; changes as they come.

    Raises:
        ConfigError: the system does not give the memory.
    """

    def __init__(self, settings: CacheSettings) -> None:
        self.prefix = settings.prefix
        name = settings.name() or f"gpufeed-{uuid.uuid4()}"
        try:
            self._store = Store(name, settings.prefix.sizes)
        except OSError as error:
            raise ConfigError(
                f'cache="host" gets no shared memory of {amount(settings.size)}: {error}; leave '
                "out cache"
            ) from error
        self.ready = self._store.ready

    def image(
        self, plan: BatchPlan, place: int, decode: Decode | None, resizer: Resizer
    ) -> Pixels | None:
        """Return one image of a batch, for the stages that `Prefix.after` leaves.

        Args:
            plan: the batch.
            place: the record's place in it.
            decode: decodes a window of the record's image, which is then kept; None if it is kept
                already.
            resizer: resizes it.

        Returns:
            uint8 (height, width, 3), only to be read; None if it cannot be decoded.
        """
        if decode is None:
            return self._kept(plan, place)
        start, shape = _row(plan.stages.window, place)
        key, blank = int(plan.image_keys[place]), bool(plan.blank[place % len(plan)])
        if self.prefix.resize is not None:
            window = decode(start, shape)
            if window is None:
                return None
            first: Any = plan.stages.views[0].stages[0]
            resize: Resize = first.resize
            size = tuple(int(side) for side in resize.size[place])
            out = np.empty((*size, 3), np.uint8) if blank else self._store.image(key)
            resizer.resize(window, resize.interpolation, resize.region(place), out)
            if not blank:
                self.ready[key] = True
            return out
        whole = None if blank else decode(*_row(self.prefix.window, key))
        if whole is None:
            # A damaged image may be good in the part that this visit shows.
            return decode(start, shape)
        self._store.image(key)[...] = whole
        self.ready[key] = True
        return self._kept(plan, place)

    def _kept(self, plan: BatchPlan, place: int) -> Pixels:
        key = int(plan.image_keys[place])
        if not self.ready[key]:
            raise PipelineError("the cache was closed while a batch of it was made")
        kept = self._store.image(key)
        if self.prefix.resize is not None:
            return kept
        (top, left), (height, width) = _row(plan.stages.window, place)
        first_row, first_column = self.prefix.window.start[key].tolist()
        return kept[top - first_row :, left - first_column :][:height, :width]


def _row(window: Window, row: int) -> tuple[tuple[int, int], tuple[int, int]]:
    top, left = window.start[row].tolist()
    height, width = window.shape[row].tolist()
    return (top, left), (height, width)


def amount(size: int) -> str:
    """Return a number of bytes as text."""
    return f"{size / 1e9:,.2f} GB" if size >= 1e9 else f"{size / 1e6:,.2f} MB"
