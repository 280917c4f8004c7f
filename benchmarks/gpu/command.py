"""Running another program of this repository as a case."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from benchmarks.gpu.job import Absent, Facts

__all__ = ["run"]

_KEPT = 2000
"""Characters of what it prints that are kept, from the end."""


def run(module: str, *arguments: str) -> Facts:
    """Run `python -m module`; return the end of what it printed.

    Raises:
        Absent: there is no such module.
    """
    if importlib.util.find_spec(module) is None:
        raise Absent(f"there is no module {module}")
    ran = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(ran.stdout, flush=True)
    if ran.returncode:
        last = (ran.stdout.strip().splitlines() or ["it printed nothing"])[-1]
        return {"error": f"exit code {ran.returncode}: {last}"}
    return {"printed": ran.stdout.strip()[-_KEPT:]}
