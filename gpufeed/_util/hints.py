"""Names that other libraries have, and what to write here instead."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec

from gpufeed.errors import ConfigError

__all__ = ["explain", "hint"]

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

_WHOLE_LOADER = "Loader(manifest) makes the batches itself"
_NO_SHARDING = (
    "leave it out, or pass shard=ShardOptions(0, 1) to Loader: one process reads all records"
)
_FROM_LOADER = "leave it out: Loader divides each batch among the processes; its option is shard"
_CLASSES = "manifest.classes has the names, and a label is the index of its name"
_PATHS = 'manifest.frame has them, in the columns "path" and "label"'

_LOADER = {
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

INSTEAD = {
    "Loader": _LOADER,
    "IndexSampler": {"shard_options": _FROM_LOADER},
    "SequentialSampler": {"shard_options": _FROM_LOADER},
    "Manifest": {
        "class_to_idx": _CLASSES,
        "targets": 'manifest.frame["label"] has the labels',
        "samples": _PATHS,
        "imgs": _PATHS,
    },
    "gpufeed": {
        "DataLoader": _WHOLE_LOADER,
        "ImageFolder": "read_folder(root) returns a manifest of the same images",
        "NoSharding": _NO_SHARDING,
        "ShardByJaxProcess": _FROM_LOADER,
        "RandomSampler": "Loader(manifest) shuffles; see IndexSampler",
        "DistributedSampler": _FROM_LOADER,
    },
}
"""What to write, by the owner of a name that it does not have."""


def explain(init: Callable[_P, None]) -> Callable[_P, None]:
    """Make `init` explain options that it does not have: other libraries' and misspelt ones.

    The decorated function raises `ConfigError` for such options, all at once.
    """
    owner = init.__qualname__.partition(".")[0]
    known = [*inspect.signature(init).parameters]

    @functools.wraps(init)  # so that `help` and others see the signature
    def explained(*args: _P.args, **options: _P.kwargs) -> None:
        advice = []
        for name in options:
            if name in INSTEAD[owner]:
                advice.append(f"no option {name}: {INSTEAD[owner][name]}")
            elif name not in known and (close := difflib.get_close_matches(name, known, 1, 0.8)):
                advice.append(f"no option {name}: it is called {close[0]}")
        if advice:
            raise ConfigError(f"{owner} has {'; '.join(advice)}")
        init(*args, **options)

    return explained


def hint(owner: str, name: str) -> str:
    """Return what an error about a missing attribute of `owner` ends with; empty for no hint."""
    instead = INSTEAD[owner].get(name)
    return f": {instead}" if instead else ""
