"""Copying encoded images into a `DiskCache` before they are fed."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpufeed._util.progress import progress as show_progress
from gpufeed.errors import ConfigError
from gpufeed.records import Manifest
from gpufeed.records.subset import Subset, as_manifest
from gpufeed.source.base import Encoded, Source
from gpufeed.source.reader import open_reader
from gpufeed.tiers.caches import DiskCache
from gpufeed.tiers.folder import BusyError, Folder
from gpufeed.tiers.future import Future
from gpufeed.tiers.source import folder_name

__all__ = ["Staged", "stage"]

Int64 = npt.NDArray[np.int64]

_TOGETHER = 256
"""Images that are read at a time."""
_LAST = 1 << 40
"""A rank greater than that of any record, so that nothing is given up for it."""
_PAUSE = 0.1
"""Seconds until a folder that other processes are changing is tried again."""


@dataclass(frozen=True)
class Staged:
    """What `stage` has done.

    Attributes:
        kept: the number of these images that the cache has now.
        copied: how many of them were copied.
        copied_bytes: the bytes of these.
        bad: the number of images that cannot be read, or have no encoded bytes.
        full: whether the cache has no room for the others.
    """

    kept: int
    copied: int
    copied_bytes: int
    bad: int
    full: bool


def stage(
    manifest: Manifest | Subset,
    cache: DiskCache,
    *,
    records: npt.ArrayLike | None = None,
    progress: bool | None = None,
) -> Staged:
    """Copy the encoded images of a manifest into a `DiskCache`, in its order, until it is full.

    A loader of the same manifest with this cache then reads them from there from the first epoch
    on. What the cache has already is not read again, so an interrupted call goes on. Jobs that use
    the cache may run meanwhile; nothing that they keep is given up.

        disk = gpufeed.DiskCache("/local/nvme", "200 GB")
        gpufeed.stage(manifest, disk)
        loader = gpufeed.Loader(manifest, cache=[disk])

    Args:
        manifest: the images: the one to be fed, since a selection of them has images of its own.
        cache: where to copy them.
        records: record keys of the images to copy, such as `NodeLocalSampler.records`; None for
            all.
        progress: whether to show a progress bar; None shows it on a terminal only.

    Raises:
        ConfigError: `cache` is no `DiskCache`, the source of the images has no fingerprint, or
            there are no such records.
        OSError: the cache cannot be written.
    """
    if not isinstance(cache, DiskCache):
        raise ConfigError(f"cache is {cache!r}; it must be a DiskCache, which stays for other runs")
    manifest = as_manifest(manifest)
    source, count = manifest.source, len(manifest)
    keys = np.arange(count) if records is None else manifest._check_keys(records)
    folder = cache.open(folder_name(source, count), Future(count))
    try:
        folder.follow()
        return _fill(folder, source, keys, progress)
    finally:
        folder.close()


def _fill(folder: Folder, source: Source, keys: Int64, show: bool | None) -> Staged:
    missing = keys[folder.kept.sizes[keys] == 0]
    copied = copied_bytes = bad = 0
    full = False
    with (
        show_progress("Staging", len(keys), show=show, unit="images") as advance,
        open_reader(source) as reader,
    ):
        advance(len(keys) - len(missing))
        for first in range(0, len(missing), _TOGETHER):
            part = missing[first : first + _TOGETHER]
            for key, image in zip(part.tolist(), reader.read(part), strict=True):
                if isinstance(image, OSError | np.ndarray):
                    bad += 1
                elif _put(folder, key, image):
                    copied, copied_bytes = copied + 1, copied_bytes + len(image)
                else:
                    full = True
                    break
            if full:
                break
            advance(len(part))
    kept = int(np.count_nonzero(folder.kept.sizes[keys]))
    return Staged(kept, copied, copied_bytes, bad, full)


def _put(folder: Folder, key: int, image: Encoded) -> bool:
    """Keep an image; return False if there is no room."""
    while True:
        try:
            return folder.put(key, image, _LAST) is not None
        except BusyError:
            time.sleep(_PAUSE)
