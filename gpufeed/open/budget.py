"""Bounds on the memory of images that are decoded at the same time."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpufeed._util.gpu_memory import free_gpu_memory
from gpufeed.errors import ConfigError, DeviceError
from gpufeed.open.cached import amount
from gpufeed.open.choice import LARGE
from gpufeed.open.kinds import WHOLE, Shares

if TYPE_CHECKING:
    from gpufeed.records import Manifest

__all__ = ["Budget", "check_whole_images"]

_UNCOUNTED_PIXELS = 1 << 24
"""Images up to this size are not counted, since the number of threads bounds them."""
_PIXELS_PER_THREAD = 1 << 25
"""Share of each thread, large enough that images from cameras never wait."""
_BYTES_PER_PIXEL = 9
"""Memory that a pixel takes while its image is decoded and resized."""


class Budget:
    """Limits the pixels of large images that threads decode at the same time.

    One image is always allowed. Without the limit, images of `max_pixels` on all threads would take
    more memory than many machines have.

    Args:
        max_pixels: the most pixels of an image.
        num_threads: the number of threads.
        memory: bytes that all threads together may take; one image may exceed it.

    Attributes:
        pixels: the most pixels that may be decoded at the same time.
    """

    def __init__(self, max_pixels: int, num_threads: int, memory: int = 1 << 62) -> None:
        self.pixels = max(
            max_pixels, min(num_threads * _PIXELS_PER_THREAD, memory // _BYTES_PER_PIXEL)
        )
        self._taken = 0
        self._released = threading.Condition()

    def take(self, pixels: int) -> contextlib.AbstractContextManager[None]:
        """Return a context in which an image of this many pixels may be decoded."""
        return _NO_WAIT if pixels <= _UNCOUNTED_PIXELS else self._reserve(pixels)

    @contextlib.contextmanager
    def _reserve(self, pixels: int) -> Iterator[None]:
        with self._released:
            self._released.wait_for(lambda: not self._taken or self._taken + pixels <= self.pixels)
            self._taken += pixels
        try:
            yield
        finally:
            with self._released:
                self._taken -= pixels
                self._released.notify_all()


_NO_WAIT = contextlib.nullcontext()


def check_whole_images(
    images: Manifest, shares: Shares, *, gpu: int, batch_size: int, prefetch: int
) -> None:
    """Check that images which a GPU decodes whole fit into its free memory.

    What else is to be there, such as a model, is not counted.

    Args:
        images: the images.
        shares: the share of each kind of decoder.
        gpu: the number of the GPU.
        batch_size: the most images of a batch.
        prefetch: the batches that DALI works on at a time.

    Raises:
        ConfigError: they do not fit.
        DeviceError: the driver does not say what is free.
    """
    count = math.ceil(batch_size * sum(shares.get(kind, 0.0) for kind in WHOLE))
    if not count:
        return
    try:
        free = free_gpu_memory(gpu)
    except MemoryError as error:
        raise DeviceError(f"the free memory of cuda:{gpu} is unknown: {error}") from error
    size = 3 * images.most_pixels(LARGE, count)
    if size * prefetch > free:
        raise ConfigError(
            f"batch_size is {batch_size} and prefetch {prefetch}, but the {count} largest images, "
            f"which are decoded whole on cuda:{gpu}, take {amount(size)} for each of {prefetch} "
            f"batches, and {amount(free)} are free; use a smaller batch_size or prefetch, "
            'opener="threads", or smaller images (gpufeed prepare)'
        )
