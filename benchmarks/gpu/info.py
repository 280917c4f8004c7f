"""The machine, and whether DALI, torch and JAX work beside each other on it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np

from benchmarks.gpu.job import Absent, Facts, Job
from gpufeed.tools.info import list_devices, list_versions

__all__ = ["cases"]

_WANTED = ("pytest", "hypothesis", "psutil", "pynvml", "torch", "jax", "torchvision", "spdl")
"""Modules without which steps, or parts of them, cannot run."""
_QUERY = "name,driver_version,memory.total,memory.used,clocks.max.sm,power.limit,mig.mode.current"


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return the machine, then each library."""
    return {
        "machine": _machine,
        "GPU": partial(_gpu, job),
        "DALI": _dali,
        "torch takes DALI's tensors": partial(_takes, job, "torch"),
        "JAX takes DALI's tensors": partial(_takes, job, "jax"),
    }


def _machine() -> Facts:
    quota = Path("/sys/fs/cgroup/cpu.max")
    missing = [name for name in _WANTED if importlib.util.find_spec(name) is None]
    facts = {fact.name: fact.value for fact in (*list_versions(), *list_devices())}
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        **facts,
        "memory, GiB": memory,
        "CPU quota": quota.read_text().strip() if quota.exists() else "",
        "not installed": ", ".join(missing),
    }


def _gpu(job: Job) -> Facts:
    job.needs_gpu("nvidia-smi describes one")
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    return dict(zip(_QUERY.split(","), ran.stdout.splitlines()[0].split(", "), strict=False))


def _dali() -> Facts:
    from nvidia import dali, nvimgcodec

    loaded = re.findall(
        r"\S*/(lib(?:nvjpeg|nvimgcodec|cuda|cudart)\.so\S*)", Path("/proc/self/maps").read_text()
    )
    packages = {each.metadata["Name"]: each.version for each in metadata.distributions()}
    nvjpeg = [f"{name} {packages[name]}" for name in packages if name.startswith("nvidia-nvjpeg")]
    return {
        "version": dali.__version__,
        "nvImageCodec": nvimgcodec.__version__,
        "nvJPEG": ", ".join(sorted(nvjpeg)),
        "GPUs": int(dali.backend.GetCUDADeviceCount()),
        "libraries": ", ".join(sorted(set(loaded))),
    }


def _takes(job: Job, name: str) -> Facts:
    if importlib.util.find_spec(name) is None:
        raise Absent(f"{name} is not installed")
    module = importlib.import_module(name)  # before DALI, as a user's program imports it
    from nvidia.dali import Pipeline, fn

    pipeline = Pipeline(4, 1, 0 if job.on_gpu else None, exec_dynamic=True)
    with pipeline:
        numbers = fn.external_source(name="x")
        pipeline.set_outputs(numbers.gpu() if job.on_gpu else fn.copy(numbers))
    pipeline.build()
    pipeline.feed_input("x", np.arange(64, dtype=np.float32).reshape(4, 16))
    (output,) = pipeline.run()
    taken = (module if name == "torch" else module.dlpack).from_dlpack(output.as_tensor())
    total = float(taken.sum())
    return {"version": module.__version__, "sum": total, "ok": total == 2016}
