"""The number of cores and the amount of memory that this process may use.

Containers and job schedulers limit both through cgroups. Processes that a launcher started on the
same machine share them.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = [
    "available_memory",
    "available_threads",
    "local_rank",
    "local_world_size",
    "quarter_of_memory",
]

_ROOT = Path("/")
# This process's number on this machine, and the number of processes there, as set by torchrun, Open
# MPI, and MPICH or Intel MPI.
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")


def available_threads() -> int:
    """Return the number of cores that this process may use, at least 1.

    This is the smaller of its share of its cgroups' cores and the number of cores it is bound to.
    """
    shared = min([os.cpu_count() or 1, *_cpusets(), *_quotas()])
    return max(1, min(len(os.sched_getaffinity(0)), shared // local_world_size()))


def quarter_of_memory() -> int:
    """Return a quarter of this process's share of memory, in bytes."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [*_read_cgroups("memory.max"), *_read_cgroups("memory.limit_in_bytes")]
    known = [int(limit) for (limit,) in limits if limit.strip().isdecimal()]
    return min([physical, *known]) // local_world_size() // 4


def available_memory() -> int:
    """Return the memory that is free for all processes of this one's cgroups together, in bytes.

    Files in the page cache count as free, since the kernel drops them when memory is needed.
    """
    free = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with contextlib.suppress(OSError):
        listed = re.findall(r"MemAvailable:\s+(\d+) kB", (_ROOT / "proc/meminfo").read_text())
        free += [int(kilobytes) << 10 for kilobytes in listed]
    for limit, used, stat in (
        *_read_cgroups("memory.max", "memory.current", "memory.stat"),
        *_read_cgroups("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat"),
    ):
        if limit.strip().isdecimal():
            files = re.findall(r"^(?:in)?active_file (\d+)", stat, re.MULTILINE)
            free.append(max(0, int(limit) - int(used) + sum(map(int, files))))
    return min(free)


def local_world_size() -> int:
    """Return the number of processes that the innermost launcher started on this machine, or 1."""
    sizes = [os.environ.get(variable, "") for variable in _LOCAL_SIZES]
    return max(1, next((int(size) for size in sizes if size.isdecimal()), _slurm_tasks()))


def local_rank() -> int:
    """Return this process's number among those that its launcher started on this machine, or 0."""
    numbers = (os.environ.get(variable, "") for variable in _LOCAL_RANKS)
    return next((int(number) for number in numbers if number.isdecimal()), 0)


def _slurm_tasks() -> int:
    """Return the number of this SLURM step's tasks on this node.

    "4(x2),3" means 4 tasks on each of two nodes and 3 on the next. The job's variables are not
    used, since a batch script, which is a single process, has them too.
    """
    number = os.environ.get("SLURM_NODEID", "")
    node = int(number) if number.isdecimal() else 0
    listed = os.environ.get("SLURM_STEP_TASKS_PER_NODE", "")
    for tasks, nodes in re.findall(r"(\d+)(?:\(x(\d+)\))?", listed):
        node -= int(nodes or 1)
        if node < 0:
            return int(tasks)
    return 1


def _cpusets() -> Iterator[int]:
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus"):
        for (listed,) in _read_cgroups(name):  # such as "0-3,8"
            ranges = re.findall(r"(\d+)(?:-(\d+))?", listed)
            if ranges:
                yield sum(int(last or first) - int(first) + 1 for first, last in ranges)


def _quotas() -> Iterator[int]:
    quotas = [limit.split() for (limit,) in _read_cgroups("cpu.max")]
    for quota, period in [*quotas, *_read_cgroups("cpu.cfs_quota_us", "cpu.cfs_period_us")]:
        if quota.strip().isdecimal():  # "max" and "-1" mean no limit
            yield math.ceil(int(quota) / int(period))


def _read_cgroups(*names: str) -> Iterator[list[str]]:
    """Yield the content of these files in each of this process's cgroups and their parents.

    Cgroups without these files are skipped.
    """
    try:
        cgroups = (_ROOT / "proc/self/cgroup").read_text()
    except OSError:
        return
    for folder in _folders(_ROOT, cgroups, names[0]):
        with contextlib.suppress(OSError):
            yield [(folder / name).read_text() for name in names]


@cache
def _folders(root: Path, cgroups: str, name: str) -> list[Path]:
    """Return the folders of these cgroups and their parents that have such a file to read."""
    found = []
    for cgroup in cgroups.splitlines():
        _, controllers, path = cgroup.split(":", 2)
        for mount in controllers.split(",") if controllers else ("", "unified"):
            top = root / "sys/fs/cgroup" / mount
            inner = top / path.lstrip("/")
            # A container that cannot see its own cgroup path has its limits at the top.
            for folder in (inner, *inner.parents):
                if os.access(folder / name, os.R_OK):
                    found.append(folder)
                if folder == top:
                    break
    return found
