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

__all__ = ["Storage", "drop_from_memory", "measure_storage"]

Keys = npt.NDArray[np.int64]

_SINGLE = 8
"""Images that are read one by one, for the latency."""
_SHARE_OF_MEMORY = 0.8


@dataclass(frozen=True)
class Storage:
    """How fast a sample of images is read.

    Attributes:
        source: the kind of the source.
        first: images/s of the first read.
        again: images/s when read again.
        latency_ms: time of reading one image alone.
        mean_bytes: bytes of an image.
        cached: whether the page cache has room for all images of the manifest, local files.
        dropped: whether these were dropped from the page cache before the first read.
        cpu_ms: CPU time of reading an image again.
    """

    source: str
    first: Median
    again: Median
    latency_ms: Median
    mean_bytes: float
    cached: bool
    dropped: bool
    cpu_ms: float

    @property
    def fetch(self) -> float:
        """Seconds of reading an image in the epochs after the first, on an idle machine."""
        if self.cached:  # CPU time alone, which other processes do not lengthen
            return min(1 / self.again.median, self.cpu_ms / 1000)
        return 1 / (self.first if self.dropped else self.again).median


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
) -> tuple[Storage, list[Content | OSError]]:
    """Read a sample, from the disk if that is possible, and again; return its images too.

    Args:
        source: the images.
        batches: the keys of the sample, in batches as a loader reads them.
        count: images of the whole manifest.
        seconds: time after which no further batch is read a second time.
    """
    keys = np.concatenate(batches)
    deadline = time.monotonic() + seconds
    dropped = drop_from_memory(source, keys)
    with open_reader(source) as reader:
        first, contents = _read(reader, batches, np.inf)
        cpu = time.process_time()
        again, repeated = _read(reader, batches, deadline)
        cpu = (time.process_time() - cpu) / len(repeated)
    latency = []
    drop_from_memory(source, keys[:_SINGLE])
    for key in keys[:_SINGLE]:
        start = time.perf_counter()
        read_images(source, np.array([key]))
        latency.append(1000 * (time.perf_counter() - start))
    read = [each for each in contents if not isinstance(each, OSError)]
    lengths = [each.nbytes if isinstance(each, np.ndarray) else len(each) for each in read]
    mean = sum(lengths) / max(len(lengths), 1)
    found = Storage(
        source=type(source).__name__,
        first=median_of(first),
        again=median_of(again),
        latency_ms=median_of(latency),
        mean_bytes=mean,
        cached=dropped and mean * count < _SHARE_OF_MEMORY * available_memory(),
        dropped=dropped,
        cpu_ms=1000 * cpu,
    )
    return found, contents


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
