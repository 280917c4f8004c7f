"""What malloc has handed out, and what it keeps of what was given back."""

from __future__ import annotations

import ctypes

__all__ = ["spare_bytes", "used_bytes"]


class _Mallinfo2(ctypes.Structure):
    """As glibc's malloc.h has it."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    )


def spare_bytes() -> int:
    """Return how many bytes lie free in all of malloc's heaps.

    Of these there is one for each of a process's threads, to 8 for a core, and what one thread gave
    back is not handed out to another; so how much lies free goes up and down by tens of megabytes.

    Raises:
        AttributeError: the C library is not glibc, 2.33 or newer.
    """
    return int(_mallinfo2().fordblks)


def used_bytes() -> int:
    """Return how many bytes malloc has handed out and not got back.

    Raises:
        AttributeError: the C library is not glibc, 2.33 or newer.
    """
    found = _mallinfo2()
    return int(found.uordblks + found.hblkhd)


def _mallinfo2() -> _Mallinfo2:
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    found: _Mallinfo2 = mallinfo2()
    return found
