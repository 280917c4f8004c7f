"""What a sharding of JAX requires of a loader, and the shard that follows from it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from gpufeed._util.sanitize import short
from gpufeed.adapters import load_adapter
from gpufeed.errors import ConfigError
from gpufeed.order.schedule import BatchSize, check_sizes

if TYPE_CHECKING:
    from gpufeed.order.shard import ShardOptions

__all__ = ["follow_sharding"]


def follow_sharding(
    sharding: Any,
    shard: ShardOptions | None,
    *,
    framework: object,
    batch_size: BatchSize,
    last_batch: object,
    targets: Collection[Any],
    collate_fn: object,
) -> ShardOptions:
    """Return the shard that a sharding gives this process.

    The arguments are those of `Loader`.

    Raises:
        ConfigError: the sharding contradicts another argument, or does not divide records.
        MissingExtraError: JAX is not installed.
    """
    if framework != "jax":
        raise ConfigError(f'framework is {short(framework)}; sharding goes with framework="jax"')
    follows: ShardOptions
    follows, parts = load_adapter("jax").shard_from_sharding(sharding)
    if shard not in (None, follows):
        raise ConfigError(
            f"shard is {shard}, but sharding gives this process {follows}; leave out shard"
        )
    for size in check_sizes(batch_size).values():
        if size % parts:
            raise ConfigError(
                f"batch_size is {size}, but sharding divides the records of this process into "
                f"{parts} equal parts; use a multiple of {parts}"
            )
    if last_batch == "partial":
        raise ConfigError(
            'last_batch is "partial", but with sharding all batches must have one shape; pass '
            '"drop" or "pad"'
        )
    if callable(collate_fn) or ("boxes" in targets and collate_fn != "pad"):
        raise ConfigError(
            "with sharding a batch has global arrays only, and neither lists of boxes nor single "
            'records for a function; pass collate_fn="pad" for boxes, and otherwise leave it out'
        )
    return follows
