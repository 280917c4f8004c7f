"""Shards read from what launchers set, and errors where that does not say which shard it is."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from gpufeed import ConfigError, ShardOptions, shard_from_env

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "11"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "12"}
MPICH = {"PMI_RANK": "3", "PMI_SIZE": "13"}
# srun for 14 of the 20 tasks that its job may start.
SLURM = {"SLURM_PROCID": "4", "SLURM_STEP_NUM_TASKS": "14", "SLURM_NTASKS": "20"}
KUBERNETES = {"JOB_COMPLETION_INDEX": "5", "JOB_COMPLETIONS": "15"}
INNERMOST_FIRST = [TORCHRUN, OPEN_MPI, MPICH, SLURM, KUBERNETES]


@pytest.mark.parametrize("place", range(len(INNERMOST_FIRST)))
def test_the_innermost_launcher_decides(place: int) -> None:
    nested = {name: text for each in INNERMOST_FIRST[place:] for name, text in each.items()}
    expected = ShardOptions(1 + place, 11 + place)
    assert shard_from_env(INNERMOST_FIRST[place]) == expected
    assert shard_from_env(nested) == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (0, 1)),
        ({"LOCAL_RANK": "3", "SLURM_JOB_ID": "7", "PMIX_RANK": "1"}, (0, 1)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1)),
        ({"RANK": "007", "WORLD_SIZE": "008"}, (7, 8)),
        # What lies outside the deciding launcher is not looked at.
        ({"RANK": "0", "WORLD_SIZE": "2", "PMI_RANK": "x", "SLURM_PROCID": "9"}, (0, 2)),
        # salloc's shell, a batch script of one task, one that asked for no number of tasks, srun in
        # an interactive job, and tasks whose container was given only these two variables.
        ({"SLURM_NTASKS": "4"}, (0, 1)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, (0, 1)),
        ({"SLURM_PROCID": "0"}, (0, 1)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1"}, (0, 1)),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, (3, 4)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, (0, 4)),
        # Kubernetes: the count comes from either variable, and a pod may run a launcher.
        ({"JOB_COMPLETION_INDEX": "2", "WORLD_SIZE": "3"}, (2, 3)),
        ({"JOB_COMPLETION_INDEX": "2", "JOB_COMPLETIONS": "3", "WORLD_SIZE": "3"}, (2, 3)),
        ({"JOB_COMPLETION_INDEX": "2", "JOB_COMPLETIONS": "3", **TORCHRUN}, (1, 11)),
        ({"JOB_COMPLETION_INDEX": "2", "WORLD_SIZE": "3", **OPEN_MPI}, (2, 12)),
    ],
)
def test_what_is_set_says_which_shard(environ: dict[str, str], expected: tuple[int, int]) -> None:
    assert shard_from_env(environ) == ShardOptions(*expected)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"RANK": "1"}, "RANK is '1', but WORLD_SIZE is not set; set both or neither"),
        ({"WORLD_SIZE": "4"}, "WORLD_SIZE is '4', but RANK is not set; set both or neither"),
        # A launcher around it may count other processes, so it does not fill the gap.
        ({"WORLD_SIZE": "4", **SLURM}, "WORLD_SIZE is '4', but RANK is not set"),
        ({"RANK": "1", "JOB_COMPLETION_INDEX": "1"}, "RANK is '1', but WORLD_SIZE is not set"),
        (
            {"OMPI_COMM_WORLD_RANK": "0"},
            "OMPI_COMM_WORLD_RANK is '0', but OMPI_COMM_WORLD_SIZE is not set",
        ),
        ({"PMI_SIZE": "2", **SLURM}, "PMI_SIZE is '2', but PMI_RANK is not set"),
        (
            {"SLURM_PROCID": "2"},
            "SLURM_PROCID is '2', but neither SLURM_STEP_NUM_TASKS nor SLURM_NTASKS is set; "
            "start the processes with srun",
        ),
        (
            {"JOB_COMPLETION_INDEX": "1"},
            "JOB_COMPLETION_INDEX is '1', but Kubernetes does not set the number of pods; "
            "set JOB_COMPLETIONS to the Job's spec.completions",
        ),
        (
            {"JOB_COMPLETION_INDEX": "1", "JOB_COMPLETIONS": "2", "WORLD_SIZE": "16"},
            "JOB_COMPLETIONS is '2', but WORLD_SIZE is '16'; set only one of them, or RANK and",
        ),
    ],
)
def test_half_of_a_pair_is_named(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        shard_from_env(environ)


def test_a_batch_script_is_not_taken_for_one_task_of_many() -> None:
    message = (
        r"SLURM_PROCID is '0' and SLURM_NTASKS is '4', but SLURM_STEP_NUM_TASKS, which srun sets, "
        r"is not set: .* start all 4 processes with srun, or a single one with srun --ntasks=1"
    )
    script = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
    with pytest.raises(ConfigError, match=message):
        shard_from_env(script)
    # What it starts with another launcher has numbers of its own.
    assert shard_from_env({**script, **OPEN_MPI}) == ShardOptions(2, 12)
    assert shard_from_env({**script, **TORCHRUN}) == ShardOptions(1, 11)


@pytest.mark.parametrize("launcher", INNERMOST_FIRST)
@pytest.mark.parametrize("text", ["", "two", "-1", "1.0", " 1", "1_0", "0x1", "²", "١"])
def test_what_is_no_integer_is_named(launcher: dict[str, str], text: str) -> None:
    index, count = list(launcher)[:2]
    for name in (index, count):
        message = re.escape(f"{name} is {text!r}; it must be an integer of 0 or more")
        with pytest.raises(ConfigError, match=message):
            shard_from_env({**launcher, name: text})


@pytest.mark.parametrize("launcher", INNERMOST_FIRST)
def test_what_is_out_of_range_is_named(launcher: dict[str, str]) -> None:
    index, count = list(launcher)[:2]
    with pytest.raises(ConfigError, match=f"{count} is '0'; set it to the number of processes"):
        shard_from_env({**launcher, count: "0"})
    message = f"{index} is '6'; with {count}=6 it must be from 0 to 5"
    with pytest.raises(ConfigError, match=message):
        shard_from_env({**launcher, index: "6", count: "6"})


def test_the_process_s_own_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in TORCHRUN.items():
        monkeypatch.setenv(name, text)
    assert shard_from_env() == ShardOptions(1, 11)


def test_neither_torch_nor_jax_is_imported() -> None:
    code = (
        "import gpufeed, sys; gpufeed.shard_from_env({});"
        "print([name for name in ('torch', 'jax', 'nvidia.dali') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["[]"]
