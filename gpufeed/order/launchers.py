"""This process's shard, from the variables that launchers give the processes they start."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gpufeed.errors import ConfigError
from gpufeed.order.shard import ShardOptions

__all__ = ["shard_from_env"]

_PAIRS = (
    ("RANK", "WORLD_SIZE"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
)
"""Launchers that set index and count together; one that may run inside another comes first."""

_POD = "JOB_COMPLETION_INDEX"


def shard_from_env(environ: Mapping[str, str] | None = None) -> ShardOptions:
    """Return this process's shard by its launcher's variables; the only one where there are none.

    The launcher nearest to the process decides, since its processes inherit the variables of those
    around it. In this order:

    1. torchrun: RANK of WORLD_SIZE. Who starts processes by hand sets these two.
    2. Open MPI: OMPI_COMM_WORLD_RANK of OMPI_COMM_WORLD_SIZE.
    3. MPICH and Intel MPI: PMI_RANK of PMI_SIZE.
    4. SLURM: SLURM_PROCID of SLURM_STEP_NUM_TASKS, or else of SLURM_NTASKS.
    5. Kubernetes, a Job with completionMode "Indexed": JOB_COMPLETION_INDEX, of JOB_COMPLETIONS or
       WORLD_SIZE. Kubernetes sets only the index; the count is for the Job's `env` to give.

    Under SLURM a batch script is process 0 even where it is the only one: only `srun` starts the
    tasks that SLURM_NTASKS counts, and sets SLURM_STEP_NUM_TASKS. So process 0 of several in a job
    (SLURM_JOB_ID) without SLURM_STEP_NUM_TASKS is an error: as a shard it would leave the others'
    records unread, and alone it might read what others read as well. A shell that `salloc`
    opened has SLURM_NTASKS but no SLURM_PROCID, and is the only process.

    Args:
        environ: the variables; `os.environ` where none are given.

    Returns:
        The shard.

    Raises:
        ConfigError: an index without a count, or the other way round; a value that is no integer
            or out of range; a SLURM batch script that asked for several tasks and started none;
            two counts that differ in a Kubernetes Job.

    Sources:
        https://docs.pytorch.org/docs/stable/elastic/run.html
        https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html
        https://slurm.schedmd.com/srun.html and sbatch.html, "OUTPUT ENVIRONMENT VARIABLES"
        https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
    """
    environ = os.environ if environ is None else environ
    for index, count in _PAIRS:
        if index in environ and count in environ:
            return _shard(environ, index, count)
        if count == "WORLD_SIZE" and index not in environ and _POD in environ:
            continue  # a pod's count, read below unless a launcher in the pod decides
        for there, missing in ((index, count), (count, index)):
            if there in environ:
                raise ConfigError(
                    f"{there} is {environ[there]!r}, but {missing} is not set; set both, or neither"
                )
    if "SLURM_PROCID" in environ:
        return _slurm(environ)
    if _POD in environ:
        return _pod(environ)
    return ShardOptions()


def _slurm(environ: Mapping[str, str]) -> ShardOptions:
    if "SLURM_STEP_NUM_TASKS" in environ:
        return _shard(environ, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
    if "SLURM_NTASKS" in environ:
        shard = _shard(environ, "SLURM_PROCID", "SLURM_NTASKS")
        if shard.shard_index == 0 and shard.shard_count > 1 and "SLURM_JOB_ID" in environ:
            raise ConfigError(
                f"SLURM_PROCID is '0' and SLURM_NTASKS is {environ['SLURM_NTASKS']!r}, but "
                "SLURM_STEP_NUM_TASKS, which srun sets, is not set: a batch script alone starts "
                f"one process; start all {shard.shard_count} with srun, or a single one with "
                "srun --ntasks=1"
            )
        return shard
    if _number(environ, "SLURM_PROCID") > 0:
        raise ConfigError(
            f"SLURM_PROCID is {environ['SLURM_PROCID']!r}, but neither SLURM_STEP_NUM_TASKS nor "
            "SLURM_NTASKS is set; start the processes with srun, and pass its variables on"
        )
    return ShardOptions()  # a batch script whose job never asked for tasks


def _pod(environ: Mapping[str, str]) -> ShardOptions:
    counts = [name for name in ("JOB_COMPLETIONS", "WORLD_SIZE") if name in environ]
    if not counts:
        raise ConfigError(
            f"{_POD} is {environ[_POD]!r}, but Kubernetes does not say of how many; set "
            "JOB_COMPLETIONS to the Job's spec.completions in its container's env"
        )
    if len({_number(environ, name) for name in counts}) > 1:
        raise ConfigError(
            f"JOB_COMPLETIONS is {environ['JOB_COMPLETIONS']!r}, but WORLD_SIZE is "
            f"{environ['WORLD_SIZE']!r}; set one of them, or RANK and WORLD_SIZE where a pod runs "
            "several processes"
        )
    return _shard(environ, _POD, counts[0])


def _shard(environ: Mapping[str, str], index: str, count: str) -> ShardOptions:
    which, of = _number(environ, index), _number(environ, count)
    if of < 1:
        raise ConfigError(f"{count} is {environ[count]!r}; set it to the number of processes")
    if which >= of:
        raise ConfigError(
            f"{index} is {environ[index]!r}; with {count}={of} it must be from 0 to {of - 1}"
        )
    return ShardOptions(which, of)


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name]
    # int() alone would take "1_0" and " 1 " as well, which no launcher writes.
    if not (text.isascii() and text.isdecimal()):
        raise ConfigError(f"{name} is {text!r}; it must be an integer of 0 or more")
    return int(text)
