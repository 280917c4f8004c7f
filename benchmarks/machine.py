"""The machine and the versions that a figure was measured with."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gpufeed._util.limits import available_threads
from gpufeed.engine.device import gpu_count

PACKAGES = ("gpufeed", "nvidia-dali-cuda120", "numpy", "polars", "torch", "jax")


@dataclass(frozen=True)
class Machine:
    """Processor, GPU, driver and versions."""

    cpu: str
    cores: int
    gpu: str | None
    driver: str | None
    python: str
    versions: dict[str, str]
    commit: str

    @staticmethod
    def here() -> Machine:
        """Look at this machine."""
        gpu = driver = None
        if gpu_count():
            gpu, driver = _nvidia_smi()
        return Machine(
            cpu=_cpu(),
            cores=available_threads(),
            gpu=gpu,
            driver=driver,
            python=platform.python_version(),
            versions=_versions(),
            commit=_run(["git", "describe", "--always", "--dirty"]) or "unknown",
        )

    def __str__(self) -> str:
        device = f"{self.gpu} (driver {self.driver}), " if self.gpu else ""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{device}{self.cores} cores of {self.cpu}; Python {self.python}, {versions}"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _nvidia_smi() -> tuple[str, str]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, _, driver = (_run(query) or "unknown, unknown").partition("\n")[0].partition(", ")
    return name, driver


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _run(command: list[str]) -> str | None:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ran.stdout.strip()
