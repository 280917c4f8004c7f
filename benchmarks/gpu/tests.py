"""The tests marked `gpu`; on the CPU, the same laws there."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.gpu.job import Absent, Facts, Job

__all__ = ["cases"]

_ROOT = Path(__file__).parents[2]
_MARKED = re.compile(r"mark\.gpu|support\.devices")
_COUNTS = {"passed": "passed", "failed": "failed", "errors": "errors?", "skipped": "skipped"}


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return a case for each file with such tests, so that a crash costs one file."""
    files = sorted(
        path.relative_to(_ROOT).as_posix()
        for path in (_ROOT / "tests").rglob("test_*.py")
        if _MARKED.search(path.read_text())
    )
    return {file: partial(_run, job, file) for file in files}


def _run(job: Job, file: str) -> Facts:
    for module in ("pytest", "hypothesis", "xdist"):
        if importlib.util.find_spec(module) is None:
            raise Absent(f"{module} is not installed")
    if not job.on_gpu and not file.startswith("tests/gpu/"):
        raise Absent("needs a GPU; what this file tests on the CPU belongs to the ordinary tests")
    chosen = ["-m", "gpu"] if job.on_gpu else ["-m", "not gpu"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, file]
    ran = subprocess.run(
        command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(ran.stdout[-8000:], flush=True)
    last = (ran.stdout.strip().splitlines() or [""])[-1]
    counts = {
        name: sum(map(int, re.findall(rf"(\d+) {said}", last))) for name, said in _COUNTS.items()
    }
    failed = re.findall(r"^(?:FAILED|ERROR) \S*?::(\S+)", ran.stdout, re.MULTILINE)
    how = {"ended": ran.returncode} if ran.returncode < 0 else {}
    return {**counts, **how, "ok": ran.returncode == 0, "which": ", ".join(failed)}
