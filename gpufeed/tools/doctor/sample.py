"""The sample of images that is measured: read, decoded once, and held in memory."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpufeed.decode.accept import Acceptor
from gpufeed.decode.decoders import NvImageCodec
from gpufeed.errors import DecodeError, ManifestError
from gpufeed.records import Manifest
from gpufeed.source.base import Content
from gpufeed.source.memory import MemorySource
from gpufeed.tools.doctor.storage import Storage, measure_storage

__all__ = ["BATCH", "Decode", "Sample", "draw_sample", "held"]

BATCH = 64
"""Images of a batch above which larger ones gain nothing."""
_BATCHES = 3
_READING, _DECODING = 4.0, 2.0
"""Seconds after which reading again, and CPU seconds after which decoding, is cut short."""
_ROUND = 0.4
"""CPU seconds that decoding a batch takes at most, about."""


@dataclass(frozen=True)
class Sample:
    """Images that can be decoded, enough for a few batches.

    Attributes:
        held: the images of `manifest`, in memory.
        options: of the loader; the batch is smaller than the user's if images are large.
        scale: how many of these batches make one of the user's.
        tried: the number of images that were read, of which `bad` cannot be decoded.
    """

    manifest: Manifest
    held: Manifest
    options: Mapping[str, Any]
    scale: float
    storage: Storage
    tried: int
    bad: int

    @property
    def alone(self) -> dict[str, Any]:
        """The options for images in memory, which need none of the tiers for slow sources."""
        tiered = isinstance(self.options.get("cache"), list | tuple)
        return {**self.options, "cache": None} if tiered else dict(self.options)


class Decode:
    """Times the decoding of images on the calling thread."""

    def __init__(self, manifest: Manifest) -> None:
        self._acceptor = Acceptor(
            manifest.source.name, reduce_depth=manifest.reduce_depth, remembered=1
        )
        self._decoder = NvImageCodec()

    def seconds(self, content: Content | OSError, size: Any, start: Any, shape: Any) -> float:
        """Return the CPU seconds of checking an image's header and decoding a window of it.

        Raises:
            DecodeError, OSError: the image cannot be read or decoded.
        """
        if isinstance(content, OSError):
            raise content
        size, start, shape = (tuple(map(int, each)) for each in (size, start, shape))
        self._acceptor.accept(content, size, 0)  # the first epoch checks more
        began = time.thread_time()
        accepted = self._acceptor.accept(content, size, 0)
        if (
            not isinstance(accepted, np.ndarray)
            and self._decoder.decode(accepted, start, shape) is None
        ):
            raise OSError("it cannot be decoded")
        return time.thread_time() - began


def draw_sample(whole: Manifest, options: Mapping[str, Any]) -> Sample:
    """Draw images at random, and keep those that can be decoded.

    Raises:
        ManifestError: none can be.
    """
    size: int = options["batch_size"]
    drawn = np.random.default_rng(0).permutation(len(whole))[: _BATCHES * max(size, BATCH)]
    batches = np.array_split(drawn, -(-len(drawn) // size))
    storage, contents = measure_storage(whole.source, batches, len(whole), seconds=_READING)
    decode, good, taken, tried = Decode(whole), [], 0.0, 0
    for place, (image, content) in enumerate(zip(whole.sizes(drawn), contents, strict=True)):
        tried += 1
        try:
            taken += decode.seconds(content, image, (0, 0), image)
        except (DecodeError, OSError):
            continue
        good.append(place)
        if taken > _DECODING:
            break
    if not good:
        raise ManifestError(
            f"none of {tried} images that were tried can be decoded; `gpufeed check` says why"
        )
    while size % 2 == 0 and size > 4 and size * taken / len(good) > _ROUND:
        size //= 2
    scale = options["batch_size"] / size
    # Enough for a batch of any size that is tried, if need be with repeats.
    least = max(size, BATCH) if scale == 1 else size
    places = np.resize(good, max(min(len(good), _BATCHES * size), least))
    sample = whole.take(drawn[places])
    return Sample(
        manifest=sample,
        held=held(sample, [contents[place] for place in places]),
        options={**options, "batch_size": size},
        scale=scale,
        storage=storage,
        tried=tried,
        bad=tried - len(good),
    )


def held(manifest: Manifest, contents: Sequence[Any]) -> Manifest:
    """Return a manifest whose images are in memory."""
    made = copy.copy(manifest)
    made._source = MemorySource(list(contents))
    return made
