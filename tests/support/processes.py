"""Processes of their own, side by side, with a limit on their time."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PATIENCE = 240
"""Seconds; more than the processes' own, whose word on where they hung is worth waiting for."""


def fork_as_torchrun(function: Callable[..., None], *arguments: Any) -> None:
    """Call this in two processes of torchrun's agent, which forks them from this one.

    They import nothing anew, which takes far longer than what they do. Nothing is read before, as
    polars cannot fork.
    """
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="127.0.0.1",
        max_restarts=0,
        start_method="fork",
    )
    elastic_launch(config, function)(*arguments)


def run(processes: Sequence[tuple[list[str], dict[str, str]]], out: Path) -> list[dict[str, Any]]:
    """Run commands side by side; return what each process wrote, by shard.

    The first that fails, or the time running out, ends them all.
    """
    # No GPU is taken, and no interface but this machine's own.
    common = {"JAX_PLATFORMS": "cpu", "GLOO_SOCKET_IFNAME": "lo"}
    started: list[subprocess.Popen[bytes]] = []
    logs = [out / f"{number}.log" for number in range(len(processes))]
    try:
        for (command, environ), path in zip(processes, logs, strict=True):
            # torchrun leaves a folder behind.
            settled = {**os.environ, **common, **environ, "TMPDIR": str(out)}
            with path.open("wb") as log:
                started.append(
                    subprocess.Popen(
                        [sys.executable, *command], env=settled, stdout=log, stderr=log
                    )
                )
        end = time.monotonic() + PATIENCE
        while None in (codes := [each.poll() for each in started]):
            if any(codes) or time.monotonic() > end:
                break
            time.sleep(0.05)
    finally:
        # SIGTERM first: torchrun passes it on to its processes, which SIGKILL would leave behind.
        for each in started:
            each.terminate()
        for each in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(40)
            each.kill()
            each.wait()
    said = "\n".join(path.read_text(errors="replace") for path in logs)
    assert codes == [0] * len(started), f"exit codes {codes} (None: ended, out of time)\n{said}"
    return sorted(
        (json.loads(path.read_text()) for path in out.glob("*.json")),
        key=lambda written: written["shard"],
    )
