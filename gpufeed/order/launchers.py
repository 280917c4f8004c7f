"""This process's shard, from the environment variables that launchers set."""

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
"""Variables of launchers that set index and count; launchers that run inside others come first."""

_POD = "JOB_COMPLETION_INDEX"


def shard_from_env(environ: Mapping[str, str] | None = None) -> ShardOptions:
    """Return this process's shard according to its launcher; a single shard if there is none.

    The innermost launcher decides, since its processes inherit the variables of outer launchers.
    The order is:

    1. torchrun: RANK of WORLD_SIZE. Set these two for processes that are started by hand.
    2. Open MPI: OMPI_COMM_WORLD_RANK of OMPI_COMM_WORLD_SIZE.
    3. MPICH and Intel MPI: PMI_RANK of PMI_SIZE.
    4. SLURM: SLURM_PROCID of SLURM_STEP_NUM_TASKS, or else of SLURM_NTASKS.
    5. Kubernetes, a Job with completionMode "Indexed": JOB_COMPLETION_INDEX of JOB_COMPLETIONS or
       WORLD_SIZE. Kubernetes sets only the index; the Job's `env` must set the count.

    A SLURM batch script is process 0 even if it is the only process: only `srun` starts the tasks
    that SLURM_NTASKS counts, and sets SLURM_STEP_NUM_TASKS. So process 0 of several in a job
    (SLURM_JOB_ID) without SLURM_STEP_NUM_TASKS is an error: as one shard of several it would leave
    the others' records unread, and as a single shard it might read records that others read too. A
    shell opened by `salloc` has SLURM_NTASKS but no SLURM_PROCID, and is a single process.

    Args:
        environ: environment variables; by default `os.environ`.

    Returns:
        The shard.

    Raises:
        ConfigError: an index is set without a count, or a count without an index; a value is not an
            integer or is out of range; a SLURM batch script asked for several tasks and started
            none; two counts of a Kubernetes Job differ.

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
            continue  # the count of a Kubernetes Job, used below unless an inner launcher decides
        for present, missing in ((index, count), (count, index)):
            if present in environ:
                raise ConfigError(
                    f"{present} is {environ[present]!r}, but {missing} is not set; set both or "
                    "neither"
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
                "SLURM_STEP_NUM_TASKS, which srun sets, is not set: a batch script is a single "
                f"process; start all {shard.shard_count} processes with srun, or a single one with "
                "srun --ntasks=1"
            )
        return shard
    if _number(environ, "SLURM_PROCID") > 0:
        raise ConfigError(
            f"SLURM_PROCID is {environ['SLURM_PROCID']!r}, but neither SLURM_STEP_NUM_TASKS nor "
            "SLURM_NTASKS is set; start the processes with srun, and pass its variables on"
        )
    return ShardOptions()  # a batch script of a job that did not ask for tasks


def _pod(environ: Mapping[str, str]) -> ShardOptions:
    counts = [name for name in ("JOB_COMPLETIONS", "WORLD_SIZE") if name in environ]
    if not counts:
        raise ConfigError(
            f"{_POD} is {environ[_POD]!r}, but Kubernetes does not set the number of pods; set "
            "JOB_COMPLETIONS to the Job's spec.completions in its container's env"
        )
    if len({_number(environ, name) for name in counts}) > 1:
        raise ConfigError(
            f"JOB_COMPLETIONS is {environ['JOB_COMPLETIONS']!r}, but WORLD_SIZE is "
            f"{environ['WORLD_SIZE']!r}; set only one of them, or RANK and WORLD_SIZE if a pod "
            "runs several processes"
        )
    return _shard(environ, _POD, counts[0])


def _shard(environ: Mapping[str, str], index: str, count: str) -> ShardOptions:
    shard_index, shard_count = _number(environ, index), _number(environ, count)
    if shard_count < 1:
        raise ConfigError(f"{count} is {environ[count]!r}; set it to the number of processes")
    if shard_index >= shard_count:
        raise ConfigError(
            f"{index} is {environ[index]!r}; with {count}={shard_count} it must be from 0 to "
            f"{shard_count - 1}"
        )
    return ShardOptions(shard_index, shard_count)


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name]
    # int() alone would also accept "1_0" and " 1 ", which no launcher writes.
    if not (text.isascii() and text.isdecimal()):
        raise ConfigError(f"{name} is {text!r}; it must be an integer of 0 or more")
    return int(text)
