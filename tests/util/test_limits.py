"""Cores and memory as cgroups, bindings and launchers leave them to a process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpufeed._util import limits

CORES = 64
GIB = 1 << 30
LAUNCHERS = ("LOCAL_", "OMPI_", "MPI_", "SLURM_")
V1 = "4:memory:{0}\n3:cpuset:{0}\n2:cpu,cpuacct:{0}\n1:name=systemd:{0}\n0::/\n"
V2 = "0::{}\n"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 cores and 64 GiB, neither cgroups nor a launcher."""
    for name in [name for name in os.environ if name.startswith(LAUNCHERS)]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(limits, "_ROOT", tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: CORES)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(CORES)))
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 24}.get)


def write(top: Path, cgroup: str, **files: str) -> None:
    """Write files below `top`; `cgroup` is /proc/self/cgroup."""
    for path, content in {"proc/self/cgroup": cgroup, **files}.items():
        file = top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


def found() -> tuple[int, float]:
    return limits.available_threads(), limits.quarter_of_memory() * 4 / GIB


def test_without_limits_all_is_available(tmp_path: Path) -> None:
    assert found() == (CORES, 64)
    write(tmp_path, "")
    assert found() == (CORES, 64)


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("/", {"cpu.max": "400000 100000\n", "memory.max": f"{8 * GIB}\n"}, (4, 8)),
        ("/", {"cpu.max": "max 100000\n", "memory.max": "max\n"}, (CORES, 64)),
        ("/", {"cpu.max": "250000 100000\n"}, (3, 64)),
        ("/", {"cpu.max": "10000 100000\n"}, (1, 64)),
        ("/", {"memory.max": f"{500 * GIB}\n"}, (CORES, 64)),
        ("/", {"cpuset.cpus.effective": "0-3,8,10-11\n"}, (7, 64)),
        ("/", {"cpuset.cpus.effective": "\n"}, (CORES, 64)),
        # The least of a cgroup and those around it.
        (
            "/pod/box",
            {"pod/box/cpu.max": "max 100000\n", "pod/cpu.max": "900000 100000\n"},
            (9, 64),
        ),
        (
            "/pod/box",
            {"pod/box/memory.max": f"{3 * GIB}\n", "pod/memory.max": f"{5 * GIB}\n"},
            (CORES, 3),
        ),
        # A container's own path may not be there: its files are at the top.
        ("/docker/0123", {"cpu.max": "200000 100000\n"}, (2, 64)),
        ("/../..", {"cpu.max": "200000 100000\n"}, (2, 64)),
        # Nobody else's.
        (
            "/mine",
            {"other/cpu.max": "200000 100000\n", "mine/cpu.max": "max 100000\n"},
            (CORES, 64),
        ),
    ],
)
def test_cgroups_of_version_2(
    tmp_path: Path, cgroup: str, files: dict[str, str], expected: tuple[int, int]
) -> None:
    files = {f"sys/fs/cgroup/{name}": content for name, content in files.items()}
    write(tmp_path, V2.format(cgroup), **files)
    assert found() == expected


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("/", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, (CORES, 64)),
        ("/", {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "10000\n"}, (5, 64)),
        (
            "/job/step",
            {
                "cpuacct/job/cpu.cfs_quota_us": "600000\n",
                "cpuacct/job/cpu.cfs_period_us": "100000\n",
                "cpuset/job/step/cpuset.effective_cpus": "4-15\n",
                "memory/job/step/memory.limit_in_bytes": "9223372036854771712\n",
                "memory/job/memory.limit_in_bytes": f"{2 * GIB}\n",
            },
            (6, 2),
        ),
        ("/job", {"cpuset/job/cpuset.effective_cpus": "4-15\n"}, (12, 64)),
        ("/job", {"unified/cpu.max": "700000 100000\n"}, (7, 64)),
    ],
)
def test_cgroups_of_version_1(
    tmp_path: Path, cgroup: str, files: dict[str, str], expected: tuple[int, int]
) -> None:
    files = {f"sys/fs/cgroup/{name}": content for name, content in files.items()}
    write(tmp_path, V1.format(cgroup), **files)
    assert found() == expected


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        (V2, {}, 40),
        (V2, {"memory.max": "max\n", "memory.current": f"{9 * GIB}\n", "memory.stat": ""}, 40),
        (V2, {"memory.max": f"{8 * GIB}\n", "memory.current": "0\n", "memory.stat": ""}, 8),
        # Files count as free, but not what lies in shared memory, which is in `file` too.
        (
            V2,
            {
                "memory.max": f"{8 * GIB}\n",
                "memory.current": f"{7 * GIB}\n",
                "memory.stat": f"anon 1\nfile {6 * GIB}\nshmem {GIB}\n"
                f"inactive_anon 5\ninactive_file {3 * GIB}\nactive_file {2 * GIB}\n",
            },
            6,
        ),
        (
            V1,
            {
                "memory/memory.limit_in_bytes": f"{4 * GIB}\n",
                "memory/memory.usage_in_bytes": f"{3 * GIB}\n",
                "memory/memory.stat": "",
            },
            1,
        ),
    ],
)
def test_available_memory(
    tmp_path: Path, cgroup: str, files: dict[str, str], expected: int
) -> None:
    files = {f"sys/fs/cgroup/{name}": content for name, content in files.items()}
    files["proc/meminfo"] = f"MemTotal: {64 << 20} kB\nMemAvailable:   {40 << 20} kB\n"
    write(tmp_path, cgroup.format("/"), **files)
    assert limits.available_memory() == expected * GIB


def test_available_memory_is_all_where_nothing_is_known() -> None:
    assert limits.available_memory() == 64 * GIB


@pytest.mark.parametrize(
    ("environ", "size"),
    [
        ({}, 1),
        ({"LOCAL_WORLD_SIZE": "8"}, 8),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 4),
        ({"MPI_LOCALNRANKS": "2"}, 2),
        ({"LOCAL_WORLD_SIZE": "0"}, 1),
        ({"LOCAL_WORLD_SIZE": "many"}, 1),
        ({"SLURM_STEP_TASKS_PER_NODE": "8"}, 8),
        ({"SLURM_STEP_TASKS_PER_NODE": "4(x2),3", "SLURM_NODEID": "0"}, 4),
        ({"SLURM_STEP_TASKS_PER_NODE": "4(x2),3", "SLURM_NODEID": "1"}, 4),
        ({"SLURM_STEP_TASKS_PER_NODE": "4(x2),3", "SLURM_NODEID": "2"}, 3),
        ({"SLURM_STEP_TASKS_PER_NODE": "1,16(x3)", "SLURM_NODEID": "3"}, 16),
        ({"SLURM_STEP_TASKS_PER_NODE": "4(x2),3", "SLURM_NODEID": "x"}, 4),
        # A batch script is one process of a job that may start many.
        ({"SLURM_NTASKS_PER_NODE": "8", "SLURM_TASKS_PER_NODE": "8(x2)"}, 1),
        # The innermost launcher counts: one task a node, which starts the others.
        ({"LOCAL_WORLD_SIZE": "8", "SLURM_STEP_TASKS_PER_NODE": "1(x4)"}, 8),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "4", "SLURM_STEP_TASKS_PER_NODE": "1"}, 4),
    ],
)
def test_processes_of_one_machine_are_counted(
    environ: dict[str, str], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    assert limits.local_world_size() == size


def test_processes_of_one_machine_share_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert found() == (8, 8)
    limited = {"sys/fs/cgroup/cpu.max": "1200000 100000\n", "sys/fs/cgroup/memory.max": f"{GIB}"}
    write(tmp_path, "0::/\n", **limited)
    assert found() == (1, 0.125)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "100")
    assert found()[0] == 1


@pytest.mark.parametrize(
    ("bound", "processes", "expected"),
    [
        (8, 1, 8),
        (8, 8, 8),  # each to cores of its own
        (4, 8, 4),  # and some are left over
        (32, 8, 8),  # four to each half of the machine
    ],
)
def test_a_process_takes_no_more_than_it_is_bound_to(
    bound: int, processes: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(bound)))
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", str(processes))
    assert limits.available_threads() == expected
