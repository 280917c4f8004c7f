"""The tiers that a user may ask for: a part of the memory, and a folder on a disk."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpufeed._util.held_folder import HeldFolder
from gpufeed._util.limits import available_memory
from gpufeed._util.numbers import is_integer
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.tiers.folder import PREFIX, Folder, held_bytes, remove_unused
from gpufeed.tiers.future import Future

__all__ = ["Cache", "DiskCache", "MemoryCache", "bytes_of", "check_caches"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}
_LEAST = 1 << 14
"""Bytes: the index takes more. A lesser number was meant in another unit."""
_SHARE = 0.9
"""Share of the available memory that a tier may take."""


@dataclass(frozen=True)
class MemoryCache:
    """Encoded images in memory, as a tier of `Loader(cache=[...])`.

    The processes of a machine share it: it is a folder in /dev/shm. It is freed with the last
    loader that uses it, by `close` or as its process ends; after all processes have been killed,
    the next loader with a `MemoryCache` frees it.

    Args:
        size: the most that the images of one manifest take on this machine: a number of bytes, or
            text such as "8 GB" (8 * 10^9 bytes) or "8 GiB" (8 * 2^30).

    Raises:
        ConfigError: it is no size.
    """

    size: int | str
    shared_memory: ClassVar[Path] = Path("/dev/shm")  # noqa: S108 - not a temporary file

    def __post_init__(self) -> None:
        bytes_of(self.size)

    def check(self, name: str) -> None:
        """Raise `ConfigError` if the machine has less memory than that."""
        size = bytes_of(self.size)
        try:
            file_system = os.statvfs(self.shared_memory)
        except OSError as error:
            raise ConfigError(
                f"{self} needs {self.shared_memory}, which cannot be used: {error.strerror}; use a "
                "DiskCache instead"
            ) from None
        whole = file_system.f_blocks * file_system.f_frsize
        if whole < size:
            raise ConfigError(
                f"{self} needs {size:,} bytes in {self.shared_memory}, which has {whole:,}; make "
                "it larger (docker run --shm-size=..., in Kubernetes an emptyDir with medium: "
                "Memory), or take a smaller MemoryCache"
            )
        held = held_bytes(self._root(name), shared=False)
        free = int(_SHARE * available_memory())
        if size - held > free:
            raise ConfigError(
                f"{self} needs {size - held:,} bytes of memory, but {free:,} may be used; take a "
                "smaller MemoryCache"
            )

    def open(self, name: str, future: Future) -> Folder:
        """Open the folder of some images: see `Folder`."""
        for root in self.shared_memory.glob(f"{PREFIX}{os.geteuid()}-*"):
            # Those of processes that were killed.
            with contextlib.suppress(OSError):
                if root != self._root(name):
                    remove_unused(HeldFolder(root), whole=True)
        return Folder(self._root(name), name, future, bytes_of(self.size), temporary=True)

    def _root(self, name: str) -> Path:
        return self.shared_memory / f"{PREFIX}{os.geteuid()}-{name.removeprefix(PREFIX)}"


@dataclass(frozen=True)
class DiskCache:
    """Encoded images in a folder on a disk of this machine, as a tier of `Loader(cache=[...])`.

    The processes of the machine share it, and it stays for the next run. It may serve any number of
    manifests, one after the other or at the same time. If it is full, images of manifests that no
    process feeds are removed first.

    Args:
        path: the folder, which is made if there is none; "~" is the home folder.
        size: the most that the files in it take: a number of bytes, or text such as "200 GB". A
            loader warns if the disk has less room.

    Raises:
        ConfigError: it is no path, or no size.
    """

    path: str | os.PathLike[str]
    size: int | str

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike) or not os.fspath(self.path):
            raise ConfigError(f"path is {short(self.path)}; it must be the path of a folder")
        bytes_of(self.size)

    @property
    def folder(self) -> Path:
        """The folder's absolute path."""
        return Path(self.path).expanduser().absolute()

    def check(self, name: str) -> None:  # noqa: ARG002 - as for a `MemoryCache`
        """Warn if the disk has less room; one that cannot be used is found out by using it."""
        root, size = self.folder, bytes_of(self.size)
        held = held_bytes(root, shared=True)
        with contextlib.suppress(OSError):
            disk = next(each for each in (root, *root.parents) if each.is_dir())
            free = shutil.disk_usage(disk).free
            if size - held > free:
                warnings.warn(
                    f"{self} may take {size - held:,} bytes more, but the disk has {free:,} free; "
                    "once it is full, no further images are kept",
                    stacklevel=2,
                )

    def open(self, name: str, future: Future) -> Folder:
        """Open the folder of some images: see `Folder`."""
        return Folder(self.folder, name, future, bytes_of(self.size))


Cache = MemoryCache | DiskCache


def check_caches(caches: object) -> list[Cache]:
    """Return the tiers of a list.

    Raises:
        ConfigError: it is no list of tiers, or two of them are in one place.
    """
    if isinstance(caches, MemoryCache | DiskCache):
        raise ConfigError(f"cache is {caches}; it must be a list, as [{caches}]")
    if not isinstance(caches, Sequence):
        raise ConfigError(
            f'cache is {short(caches)}; it must be "host", "device", None, or a list of '
            "MemoryCache and DiskCache"
        )
    for each in caches:
        if not isinstance(each, MemoryCache | DiskCache):
            raise ConfigError(
                f"cache has {short(each)} in its list; the list must be of MemoryCache and "
                'DiskCache ("host" and "device" cannot be combined with them)'
            )
    places = [each.folder if isinstance(each, DiskCache) else None for each in caches]
    for place in places:
        if places.count(place) > 1:
            where = "in memory" if place is None else f"in {place}"
            raise ConfigError(f"cache has two tiers {where}; leave one out")
    return list(caches)


def bytes_of(size: object) -> int:
    """Return a size as a number of bytes.

    Raises:
        ConfigError: it is no size, or less than any images take.
    """
    count = 0
    if is_integer(size):
        count = int(size)
    elif isinstance(size, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", size.lower())
        if found:
            count = int(float(found[1]) * (_UNITS | _BINARY)[found[2] or ""])
    if count < _LEAST:
        raise ConfigError(
            f"size is {short(size)}; it must be {_LEAST:,} bytes or more, as a number or with a "
            'unit as in "8 GB" (8 * 10^9 bytes) or "8 GiB" (8 * 2^30)'
        )
    return count
