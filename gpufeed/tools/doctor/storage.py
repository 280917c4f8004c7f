"""Measuring how fast images are read, in the way a loader reads them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.limits import available_memory
from gpufeed.source.base import Content, Source, read_images
from gpufeed.source.reader import open_reader
from gpufeed.source.stored import StoredSource
from gpufeed.source.wrapper import Wrapper
from gpufeed.tools.median import Median, median_of

__all__ = ["Reading", "Storage", "drop_from_memory", "measure_storage"]

Keys = npt.NDArray[np.int64]

_SINGLE = 8
"""Images that are read one by one, for the latency."""
_SMALL = 1 << 16
"""Bytes of a file below which opening it takes longer than reading it."""
_SHARE_OF_MEMORY = 0.8


@dataclass(frozen=True)
class Storage:
    """How fast a sample of images is read.

    Attributes:
        source: the kind of the source.
        found: images/s at the first read, with whatever the page cache had.
        cold: images/s from the disk; None if the images are not local files.
        warm: images/s when read again.
        latency_ms: time of reading one image alone, from the disk if that is possible.
        mean_bytes: bytes of an image.
        small: share of images below 64 KiB, 0 to 1.
        fits: whether the page cache has room for all images of the manifest.
        cpu_ms: CPU time of reading an image again.
    """

    source: str
    found: Median
    cold: Median | None
    warm: Median
    latency_ms: Median
    mean_bytes: float
    small: float
    fits: bool
    cpu_ms: float

    @property
    def steady(self) -> Median:
        """Images/s in the epochs after the first."""
        return self.warm if self.cold is None or self.fits else self.cold

    @property
    def fetch(self) -> float:
        """Seconds of reading an image in these epochs, on a machine that does nothing else."""
        wall = 1 / self.steady.median
        # From the page cache it is CPU time alone, which other processes do not lengthen.
        in_memory = self.cold is not None and self.fits
        return min(wall, self.cpu_ms / 1000) if in_memory else wall


@dataclass(frozen=True)
class Reading:
    """A sample of images that was read.

    Attributes:
        storage: how fast.
        contents: what the source returned for each.
    """

    storage: Storage
    contents: list[Content | OSError]


def drop_from_memory(source: Source, keys: Keys) -> bool:
    """Drop local files of images from the page cache; return whether there are any."""
    if not isinstance(source, StoredSource) or (places := source.places()) is None:
        return False
    folder, names = places
    if not isinstance(folder, Path):
        return False
    files = {folder / name for name in names.gather(keys)}
    # Of ranges of files, the place is the file and the first byte.
    files = {each if each.exists() else Path(str(each).rpartition(" ")[0]) for each in files}
    for file in files:
        try:
            handle = os.open(file, os.O_RDONLY)
        except OSError:
            return False
        try:
            os.fdatasync(handle)  # pages that are not written yet are kept
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)
    return True


def measure_storage(
    source: Source, batches: Sequence[Keys], count: int, *, seconds: float
) -> Reading:
    """Read a sample as found, from the disk, and again.

    Args:
        source: the images.
        batches: the keys of the sample, in batches as a loader reads them.
        count: images of the whole manifest.
        seconds: time after which no further batch is read a second time.
    """
    keys = np.concatenate(batches)
    single = keys[:_SINGLE]
    deadline = time.monotonic() + seconds
    with open_reader(source) as reader:
        rates, contents = _read(reader, batches, np.inf)
        lengths = [_length(each) for each in contents if not isinstance(each, OSError)] or [0]
        cold: list[float] = []
        if drop_from_memory(source, keys):
            cold, _ = _read(reader, batches, deadline)
        cpu = time.process_time()
        warm, again = _read(reader, batches, deadline)
        cpu = (time.process_time() - cpu) / len(again)
    if cold:
        drop_from_memory(source, single)
    latency = []
    for key in single:
        start = time.perf_counter()
        read_images(source, np.array([key]))
        latency.append(1000 * (time.perf_counter() - start))
    mean = float(np.mean(lengths))
    return Reading(
        Storage(
            type(source).__name__,
            median_of(rates),
            median_of(cold) if cold else None,
            median_of(warm),
            median_of(latency),
            mean,
            float(np.mean(np.array(lengths) < _SMALL)),
            mean * count < _SHARE_OF_MEMORY * available_memory(),
            1000 * cpu,
        ),
        contents,
    )


def _read(
    reader: Wrapper, batches: Sequence[Keys], deadline: float
) -> tuple[list[float], list[Any]]:
    """Read batches as a loader does, the first ones until a deadline; return rates and images."""
    rates, contents = [], []
    # A source that makes its own requests is asked for several batches at a time.
    groups = [batches[i : i + reader.batches] for i in range(0, len(batches), reader.batches)]
    with ThreadPoolExecutor(reader.batches) as pool:
        for group in groups:
            start = time.perf_counter()
            read = [image for images in pool.map(reader.read, group) for image in images]
            rates.append(len(read) / (time.perf_counter() - start))
            contents += read
            if time.monotonic() > deadline:
                break
    # The last group may be smaller; it would not show what several batches reach.
    full = rates[: len(batches) // reader.batches]
    return full or rates, contents


def _length(content: Content) -> int:
    return content.nbytes if isinstance(content, np.ndarray) else len(content)
