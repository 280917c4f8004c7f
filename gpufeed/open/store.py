"""Images in host memory that the processes of a machine share."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import socket
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["Store", "filled_bytes"]

_PROCESSES = Path("/proc")
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_WAIT_SECONDS = 10.0
"""How long to wait for another process that is looking for memory or making it."""


class Store:
    """Images by number, written once and read by all processes that give the same name.

    The memory is an anonymous file (`memfd_create`), which other processes find by its name among
    the open files in /proc. So the kernel frees it with the last process that holds it, also if
    that is killed, and the size of /dev/shm does not limit it. Pages take memory when they are
    first written.

    Nothing is locked. An image's flag is set after its pixels, so an image whose writer was killed
    is written again, and processes that write an image at the same time write the same. Processors
    other than x86 may show another process the flag first, so do not share the memory there.

    Args:
        name: says all that decides the images; at most 240 letters.
        sizes: int64 (n, 2), height and width of each image.

    Attributes:
        ready: bool (n,), which images are there; changes as they come.

    Raises:
        OSError: the system does not give the memory.
    """

    def __init__(self, name: str, sizes: npt.NDArray[np.int64]) -> None:
        lengths = 3 * sizes.prod(axis=1)
        self._sizes = sizes
        self._ends = len(sizes) + np.cumsum(lengths)
        self._starts = self._ends - lengths
        # The memory lives as long as a view of it.
        whole = np.frombuffer(_share(name, int(self._ends[-1])), np.uint8)
        self.ready = whole[: len(sizes)].view(np.bool_)
        self._whole = whole

    def image(self, number: int) -> npt.NDArray[np.uint8]:
        """Return the memory of an image, uint8 (height, width, 3), to be written or read."""
        height, width = self._sizes[number]
        pixels = self._whole[self._starts[number] : self._ends[number]]
        return pixels.reshape(height, width, 3)


def filled_bytes(name: str) -> int:
    """Return how much memory the images that processes share by this name take already."""
    found = _find(name)
    if found is None:
        return 0
    with found:
        return os.fstat(found.fileno()).st_blocks * 512


def _share(name: str, size: int) -> mmap.mmap:
    """Return the shared memory of this name, which is made if no process has it."""
    with _one_at_a_time():
        memory = _find(name)
        if memory is None:
            made = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            memory = os.fdopen(made, "r+b", buffering=0)
            memory.truncate(size)
            # No process can cut off what others read.
            fcntl.fcntl(memory, fcntl.F_ADD_SEALS, _SEALS)
        with memory:
            return mmap.mmap(memory.fileno(), size)  # which holds it open, so that others find it


def _find(name: str) -> FileIO | None:
    """Open the shared memory of this name that a process of this user holds; None if none does."""
    for folder in _PROCESSES.glob("[0-9]*/fd"):
        # Processes and files vanish meanwhile, and those of other users may not be looked at.
        with contextlib.suppress(OSError):
            for file in folder.iterdir():
                with contextlib.suppress(OSError):
                    if str(file.readlink()) != f"/memfd:{name} (deleted)":
                        continue
                    memory = file.open("r+b", buffering=0)
                    if _is_memory(memory):
                        return memory
                    memory.close()
    return None


def _is_memory(file: FileIO) -> bool:
    """Return whether a file is memory that a process of this user has made and sealed.

    Where root looks at other users' processes, they may have opened another file meanwhile.
    """
    try:
        seals = fcntl.fcntl(file, fcntl.F_GET_SEALS)
    except OSError:  # it is on a disk
        return False
    return os.fstat(file.fileno()).st_uid == os.geteuid() and seals & _SEALS == _SEALS


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Let one process of this user at a time look for memory and make it.

    The lock is an address without a file, so a process that is killed leaves none behind. Without
    it, processes that start together would each have a copy; that is all that it prevents.
    """
    with socket.socket(socket.AF_UNIX) as lock:
        end = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                lock.bind(f"\0gpufeed-store-{os.geteuid()}")
            except OSError as error:
                if error.errno == errno.EADDRINUSE and time.monotonic() < end:
                    time.sleep(0.01)
                    continue
            break
        yield
