"""One contender in a process of its own, which answers requests by lines of JSON.

    python -m benchmarks.compare.contender WORK NAME FD

It reads requests from standard input and writes its answers to the file descriptor FD, since
libraries print what they like to standard output.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.compare.field import find_peer
from benchmarks.compare.gpu import GpuWatch
from benchmarks.compare.work import Work

__all__ = ["answer", "cpu_seconds", "main"]


def _wait(image: Any) -> None:
    """Until the pixels are there; where they come from a GPU, they may still be on their way."""
    if type(image).__module__.startswith("torch"):
        if image.is_cuda:
            import torch

            torch.cuda.synchronize()
    elif hasattr(image, "block_until_ready"):
        image.block_until_ready()


def _to_host(image: Any) -> Any:
    if hasattr(image, "is_cuda") and image.is_cuda:
        image = image.cpu()
    elif hasattr(image, "as_cpu"):
        image = image.as_cpu()
    return np.asarray(image)


def cpu_seconds() -> tuple[float, float]:
    """User and system time of this process and all below it, ended ones included."""
    user = system = 0.0
    here = psutil.Process()
    for process in (here, *here.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        user += times.user + times.children_user
        system += times.system + times.children_system
    return user, system


def _memory() -> dict[str, float]:
    """What this process and all below it hold, MiB, as fields of a `Round`.

    The most that each has held is known with all its shared pages; what is shared now is taken off.
    """
    own = most = 0.0
    here = psutil.Process()
    for process in (here, *here.children(recursive=True)):
        try:
            found = process.memory_full_info()
            most += _most_resident(process.pid) - (found.rss - found.pss)
            own += found.uss
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            continue
    return {"memory_mib": own / 2**20, "peak_mib": most / 2**20}


def _most_resident(process: int) -> float:
    """The most memory a process has had resident, bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * float(line.split()[1])
    raise ProcessLookupError(f"process {process} has ended")


class Contender:
    """Answers requests."""

    def __init__(self, work: Work, name: str) -> None:
        self._work = work
        self._peer = find_peer(name)
        self._batches: Iterator[tuple[Any, Any]] = iter(())
        self._gpu = GpuWatch(work.device)

    def open(self) -> dict[str, Any]:
        """Make the loader and take its first batch."""
        began = time.perf_counter()
        self._batches = self._peer.open(self._work)
        image, _ = next(self._batches)
        _wait(image)
        return {"first_batch_s": time.perf_counter() - began}

    def check(self) -> dict[str, Any]:
        """Take two epochs' worth of batches; tell what they held."""
        epoch = len(self._work.paths) // self._work.batch_size
        labels, means, mean, spread = [], [], 0.0, 0.0
        shape = kind = ""
        for _ in range(2 * epoch):
            image, label = next(self._batches)
            pixels = _to_host(image)
            shape, kind = "x".join(map(str, pixels.shape)), str(pixels.dtype)
            labels += _to_host(label).ravel().tolist()
            means += pixels.mean((1, 2, 3)).tolist()
            mean += float(pixels.mean()) / (2 * epoch)
            # Image by image, so that no copy of a batch counts as the contender's memory.
            squares = sum(float(np.vdot(each, each)) for each in pixels) / pixels.size
            spread += max(squares - float(pixels.mean()) ** 2, 0.0) ** 0.5 / (2 * epoch)
        return {
            "shape": shape,
            "dtype": kind,
            "labels": labels,
            "means": means,
            "mean": mean,
            "std": spread,
        }

    def drain(self, batches: int) -> dict[str, Any]:
        """Take batches that were begun ahead."""
        for _ in range(batches):
            next(self._batches)
        return {}

    def round(self, batches: int) -> dict[str, Any]:
        """Time `batches`."""
        user, system = cpu_seconds()
        with self._gpu.looking():
            began = time.perf_counter()
            for _ in range(batches):
                image, _label = next(self._batches)
                _wait(image)
            seconds = time.perf_counter() - began
            user_end, system_end = cpu_seconds()
        images = batches * self._work.batch_size
        return {
            "images_per_second": images / seconds,
            "user_ms": 1e3 * (user_end - user) / images,
            "system_ms": 1e3 * (system_end - system) / images,
            **_memory(),
            **self._gpu.figures,
        }

    def paced(self, batches: int, step: float) -> dict[str, Any]:
        """Take `batches`, working for `step` seconds on each, which takes no core."""
        waited, began = 0.0, time.perf_counter()
        for _ in range(batches):
            asked = time.perf_counter()
            image, _label = next(self._batches)
            _wait(image)
            waited += time.perf_counter() - asked
            time.sleep(step)
        return {"waited": waited / (time.perf_counter() - began)}


def main(work: Path, name: str, descriptor: int) -> None:
    """Answer requests until there are no more."""
    answer(Contender(Work.load(work), name), descriptor)


def answer(contender: object, descriptor: int) -> None:
    """Call the method that each request names; its dict, or its error, is the answer."""
    with os.fdopen(descriptor, "w", buffering=1) as answers:
        for line in sys.stdin:
            request, *arguments = json.loads(line)
            try:
                found = getattr(contender, request)(*arguments)
            except Exception as error:
                lines = str(error).strip().splitlines() or [""]
                found = {"error": f"{type(error).__name__}: {lines[-1][:200]}"}
            answers.write(json.dumps(found) + "\n")
    # Not by way of the libraries' own ends, some of which wait for threads that wait.
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
