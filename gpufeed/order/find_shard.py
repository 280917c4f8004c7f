"""The shard that this process should take where a loader was not given one."""

from __future__ import annotations

import warnings
from typing import NamedTuple

from gpufeed.errors import ConfigError
from gpufeed.order.launchers import shard_from_env
from gpufeed.order.process_group import process_groups
from gpufeed.order.shard import ShardOptions

__all__ = ["FoundShard", "find_shard", "warn_if_cut_twice"]


class FoundShard(NamedTuple):
    """A shard, and what it was learned from, such as "torch.distributed"; empty for none."""

    shard: ShardOptions
    origin: str


def find_shard(*, launched: bool = True) -> FoundShard:
    """Return this process's shard according to its process group, or else to its launcher.

    A process group of torch.distributed or jax.distributed decides if it is initialized. Neither
    library is imported or initialized for this.

    Args:
        launched: whether the process group, if any, is up by now. If not, a launcher's variables
            that do not tell the shard are ignored: Lightning starts processes with WORLD_SIZE but
            no RANK, and initializes torch.distributed later.

    Raises:
        ConfigError: the launcher's variables contradict each other, or are incomplete.
    """
    group = next(process_groups(), None)
    if group is not None:
        return FoundShard(ShardOptions(group.rank, group.size), group.name)
    try:
        shard = shard_from_env()
    except ConfigError as error:
        if not launched:
            return FoundShard(ShardOptions(), "")
        raise ConfigError(
            f"{error}. If this process should read all records, pass "
            "shard=gpufeed.ShardOptions(0, 1)"
        ) from None
    return FoundShard(shard, "the launcher" if shard.shard_count > 1 else "")


def warn_if_cut_twice(part: int, whole: int, found: FoundShard) -> None:
    """Warn if records seem to have been divided among the processes before.

    Args:
        part: number of records that the loader reads per epoch, in all processes.
        whole: number of records they were selected from.
        found: the shard that the loader takes of them.
    """
    shards = found.shard.shard_count
    if shards > 1 and abs(part * shards - whole) < shards:
        warnings.warn(
            f"these {part} records are 1/{shards} of the {whole} they were selected from, and the "
            f"loader now reads 1/{shards} of them, since {found.origin} has {shards} processes; if "
            "each process selected records of its own, pass shard=gpufeed.ShardOptions(0, 1)",
            stacklevel=5,
        )
