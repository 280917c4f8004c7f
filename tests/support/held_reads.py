"""Has the kernel hold reads, as a storage that hangs does.

By a seccomp filter with a listener, which any process may put on itself: a read() of so many bytes,
by the thread that asked for it or one started after that by it, is put before the listener, and
waits for it. To be used in a process of its own, since nothing takes a filter away again.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import select
import struct
from pathlib import Path

# Numbers of read() and seccomp(), and the audit architecture, by the kernel's headers.
_MACHINES = {"x86_64": (0, 317, 0xC000003E), "aarch64": (63, 277, 0xC00000B7)}
_NO_NEW_PRIVS, _SET_MODE_FILTER, _NEW_LISTENER = 38, 1, 8
_ASK_LISTENER, _ALLOW = 0x7FC00000, 0x7FFF0000
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_GO_ON = 1


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jump_true", ctypes.c_uint8),
        ("jump_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction)))


class UnsupportedError(Exception):
    """The kernel does not do it, or not here."""


class HeldReads:
    """Holds the reads of one file: each read() of as many bytes as it has.

    Args:
        path: the file, which is lengthened first to a length that hardly any other has. Images do
            not mind what comes after them.

    Raises:
        UnsupportedError: that cannot be had here.
    """

    def __init__(self, path: Path) -> None:
        count = 654_321
        os.truncate(path, count)
        if platform.machine() not in _MACHINES:
            raise UnsupportedError(f"no system call numbers for {platform.machine()}")
        read, seccomp, machine = _MACHINES[platform.machine()]
        load, equal, answer = 0x20, 0x15, 0x06
        lines = [
            (load, 0, 0, 4),  # the architecture
            (equal, 0, 5, machine),
            (load, 0, 0, 0),  # the number of the call
            (equal, 0, 3, read),
            (load, 0, 0, 16 + 2 * 8),  # its third argument
            (equal, 0, 1, count),
            (answer, 0, 0, _ASK_LISTENER),
            (answer, 0, 0, _ALLOW),
        ]
        instructions = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
        program = _Program(len(lines), instructions)
        library = ctypes.CDLL(None, use_errno=True)
        library.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
        how = ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(_NEW_LISTENER)
        self._listener = library.syscall(seccomp, *how, ctypes.byref(program))
        if self._listener < 0:
            raise UnsupportedError(f"seccomp: {os.strerror(ctypes.get_errno())}")

        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)

    def wait(self) -> None:
        """Wait until a read is held."""
        self._poll.poll()

    def let_go(self) -> int:
        """Have all reads that are held go on; says how many. Later ones are held again."""
        gone = 0
        while self._poll.poll(0):
            asked = bytearray(80)
            fcntl.ioctl(self._listener, _RECEIVE, asked)
            (number,) = struct.unpack_from("Q", asked)
            fcntl.ioctl(self._listener, _ANSWER, struct.pack("QqiI", number, 0, 0, _GO_ON))
            gone += 1
        return gone
