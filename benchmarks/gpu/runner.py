"""Running a step in processes of its own, so that a crash or a hang costs one case."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.gpu.job import Job
from benchmarks.gpu.results import Results
from benchmarks.gpu.steps import Step

__all__ = ["run_step"]

_POLL = 0.05
_TERMINATION = 10.0
"""Seconds in which a process that is told to end may end others that it started."""
_LOG = 20_000
"""Characters of a process's output that are kept, from its end."""
_ENVIRONMENT = {"PYTHONUNBUFFERED": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def run_step(
    step: Step, job: Job, results: Results, deadline: float, say: Callable[[str], None]
) -> None:
    """Carry out the cases of a step that are not among the results yet.

    After a case that crashes or takes too long, the others are carried out in a new process.

    Args:
        step: the step.
        job: what it is given.
        results: take each case as soon as it is known.
        deadline: the time by `time.monotonic` at which to stop; the step's own limit may be sooner.
        say: told how it goes.
    """
    limit = time.monotonic() + step.limit
    until = min(limit, deadline)
    results.begin(step.name, "")
    results.save()
    while time.monotonic() < until:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            known = replace(job, known=results.known(step.name))
            process = _Process(step, known, Path(scratch))
            try:
                ended, current = _follow(process, step, results, until, say)
            finally:
                process.kill()  # or, after a crash, what it has left behind
            process.keep_log(Path(job.out, "log.txt"), f"{step.name}: {current or ''}: {ended}")
        if ended == "done":
            results.finish(step.name)
            return
        if ended == "no time left":
            break
        # A step that fails before its first case would fail again.
        results.add(step.name, current or "(start)", {"error": ended}, 0)
        say(f"{step.name}: {current or '(start)'}: {ended}")
        if current is None:
            results.finish(step.name)
            return
    if until == limit:
        error = f"stopped after {step.limit:.0f} s, the limit of the step"
        results.add(step.name, "(end)", {"error": error}, 0)
        results.finish(step.name)
    # Otherwise the next run with the same folder carries on here.


class _Process:
    """A process that carries out cases."""

    def __init__(self, step: Step, job: Job, scratch: Path) -> None:
        self._rows, self._log = scratch / "rows", scratch / "log"
        self._rows.touch()
        job.save(scratch / "job.json")
        module = [sys.executable, "-m", "benchmarks.gpu.child"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *module,
                    f"{step.package}.{step.name}",
                    str(scratch / "job.json"),
                    str(self._rows),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **_ENVIRONMENT, "TMPDIR": str(scratch)},
            )

    def rows(self) -> Iterator[dict[str, Any] | None]:
        """Yield each row as it comes, and None while there is none; end with the process."""
        read = 0
        while True:
            ended = self._process.poll() is not None  # before reading, so that no row is missed
            lines = self._rows.read_text().splitlines(keepends=True)
            for line in lines[read:]:
                if line.endswith("\n"):
                    read += 1
                    yield json.loads(line)
            if ended:
                return
            yield None
            time.sleep(_POLL)

    @property
    def ending(self) -> str:
        """How the process ended."""
        code = self._process.returncode
        if code == 0:
            return "done"
        return f"crashed: {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def kill(self) -> None:
        """End the process and those that it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_TERMINATION)

    def keep_log(self, path: Path, title: str) -> None:
        """Append the end of the process's output to a file."""
        text = re.sub(r"\x1b\[[0-9;]*m", "", self._log.read_text(errors="replace"))
        with path.open("a") as file:
            file.write(f"==== {title}\n{text[-_LOG:]}\n")


def _follow(
    process: _Process, step: Step, results: Results, until: float, say: Callable[[str], None]
) -> tuple[str, str | None]:
    """Note a process's cases until it ends; return how it ended, and the case it was at."""
    current, since = None, time.monotonic()
    for row in process.rows():
        now = time.monotonic()
        if row is None:
            if now > until or now - since > step.patience:
                process.kill()
                late = f"stopped after {now - since:.0f} s"
                return ("no time left" if now > until else late), current
            continue
        since, current = now, row.get("begun")
        if "about" in row:
            results.begin(step.name, row["about"])
        if "case" in row:
            results.add(step.name, row["case"], row["facts"], row["seconds"])
            shown = "; ".join(f"{name} {value}" for name, value in row["facts"].items())
            say(f"{step.name}: {row['case']}: {shown[:160]}")
    return process.ending, current
