"""The shard: the part of each global batch that this process reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError

__all__ = ["ShardOptions", "adopt_shard"]


@dataclass(frozen=True)
class ShardOptions:
    """This process is shard `shard_index` of `shard_count`.

    Attributes:
        shard_index: 0 to shard_count - 1.
        shard_count: number of processes that feed one training run, at least 1.

    Raises:
        ConfigError: a value is out of range; the message names it.
    """

    shard_index: int = 0
    shard_count: int = 1

    def __post_init__(self) -> None:
        for name in ("shard_index", "shard_count"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(f"{name} is {short(value)}; it must be an integer")
        if self.shard_count < 1:
            raise ConfigError(f"shard_count is {self.shard_count}; it must be at least 1")
        if not 0 <= self.shard_index < self.shard_count:
            raise ConfigError(
                f"shard_index is {self.shard_index}; with shard_count={self.shard_count} "
                f"it must be from 0 to {self.shard_count - 1}"
            )


def adopt_shard(shard: object) -> ShardOptions:
    """Return a shard of any supported kind as `ShardOptions`.

    Raises:
        ConfigError: it has no shard_index and shard_count, or a value is out of range.
    """
    given: Any = shard
    # The class ShardOptions has them too: its defaults.
    if isinstance(shard, type) or not {"shard_index", "shard_count"} <= {*dir(given)}:
        raise ConfigError(
            f"shard is {short(shard)}; it must be ShardOptions(shard_index, shard_count), "
            "gpufeed's or Grain's"
        )
    return ShardOptions(given.shard_index, given.shard_count)
