"""Options that other loaders have, and what to write here instead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

from gpufeed.errors import ConfigError

__all__ = ["explain"]

_P = ParamSpec("_P")

_ORDER = (
    "the sampler has the order and the seed: sampler=IndexSampler(len(manifest), shuffle=True, "
    "seed=0, num_epochs=None); Loader.for_evaluation(manifest) has all records in order"
)
_SHUFFLE = (
    "leave it out: Loader(manifest) shuffles, by default with sampler=IndexSampler(len(manifest), "
    "shuffle=True, seed=0), and Loader.for_evaluation(manifest) does not"
)
_TAIL = 'pass last_batch="drop", the default, "partial" or "pad"'
_TRANSFORMS = "pass transforms, a list"
_MANIFEST = "pass a manifest first: Loader(read_folder(...))"
_SHARD = "pass shard=ShardOptions(shard_index, shard_count)"
_THREADS = "threads of this process make the images: pass num_threads"
_NO_WORKERS = "leave it out: there are no worker processes, and batches come in order"
_PINNED = "leave it out: batches come on the device"
_PREFETCH = "pass prefetch, a number of batches"

_INSTEAD = {
    "shuffle": _SHUFFLE,
    "seed": _ORDER,
    "generator": _ORDER,
    "num_epochs": _ORDER,
    "drop_last": _TAIL,
    "drop_remainder": _TAIL,
    "transform": _TRANSFORMS,
    "transformations": _TRANSFORMS,
    "operations": _TRANSFORMS,
    "dataset": _MANIFEST,
    "data_source": _MANIFEST,
    "source": _MANIFEST,
    "batch_sampler": "pass sampler and batch_size",
    "collate": "pass collate_fn",
    "batch_fn": "pass collate_fn",
    "shard_options": _SHARD,
    "rank": _SHARD,
    "num_replicas": _SHARD,
    "world_size": _SHARD,
    "num_workers": _THREADS,
    "worker_count": _THREADS,
    "read_options": _THREADS,
    "worker_init_fn": _NO_WORKERS,
    "multiprocessing_context": _NO_WORKERS,
    "persistent_workers": _NO_WORKERS,
    "in_order": _NO_WORKERS,
    "pin_memory": _PINNED,
    "pin_memory_device": _PINNED,
    "prefetch_factor": _PREFETCH,
    "worker_buffer_size": _PREFETCH,
    "timeout": "pass read_timeout, in seconds for each image",
    "enable_profiling": "read loader.stats",
}


def explain(init: Callable[_P, None]) -> Callable[_P, None]:
    """Make `init` explain options that it does not have, and another loader has.

    The decorated function raises `ConfigError` for such options, all at once.
    """

    @functools.wraps(init)  # so that `help` and others see the signature
    def explained(*args: _P.args, **options: _P.kwargs) -> None:
        advice = [f"no option {name}: {_INSTEAD[name]}" for name in options if name in _INSTEAD]
        if advice:
            raise ConfigError(f"Loader has {'; '.join(advice)}")
        init(*args, **options)

    return explained
