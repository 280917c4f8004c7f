"""A step of which cases fail in every way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.gpu.job import Absent, Facts, Job


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """One of each kind, and one that finds what came before."""
    return {
        "fine": lambda: {"figure": 1234.5, "ok": True, "goal": "1 or more", "found": 1234.5},
        "raises": _raises,
        "crashes": lambda: os.kill(os.getpid(), signal.SIGSEGV),
        "absent": _absent,
        "with rows": lambda: {"rows": {"one": {"figure": 1}, "two": {"ok": False}}},
        "hangs": lambda: _hangs(job),
        "after": lambda: {"earlier": ", ".join(job.known)},
    }


def _raises() -> Facts:
    raise ValueError("no such | thing\nStacktrace (9 entries):\n[frame 0]")


def _absent() -> Facts:
    raise Absent("needs a GPU: there is none")


def _hangs(job: Job) -> Facts:
    if job.quick:
        return {}
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    Path(job.out, "sleeper").write_text(str(child.pid))
    time.sleep(1000)
    return {}
