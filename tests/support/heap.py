"""What malloc has handed out."""

from __future__ import annotations

import ctypes

__all__ = ["used_bytes"]


class _Mallinfo2(ctypes.Structure):
    """As glibc's malloc.h has it."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    )


def used_bytes() -> int:
    """Return how many bytes malloc has handed out and not got back.

    Raises:
        AttributeError: the C library is not glibc, 2.33 or newer.
    """
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    found = mallinfo2()
    return int(found.uordblks + found.hblkhd)
