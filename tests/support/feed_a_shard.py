"""What one process of test_processes.py does: feed its shard, and write down what it got.

python -m tests.support.feed_a_shard HOW SET OUT

HOW is how the process learns its shard: "jax", or "torch" in two processes that torchrun's agent
forks from this one. SET is a folder that `save_set` filled. Each process writes one JSON file below
OUT.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import gpufeed
from gpufeed import Batch, IndexSampler, Loader, Manifest, ShardOptions
from gpufeed import transforms as tf
from gpufeed.adapters import Framework
from gpufeed.order.schedule import LastBatch
from tests.support.processes import fork_as_torchrun

GLOBAL_BATCH = 12
EPOCHS = 2
ENDINGS: tuple[LastBatch, ...] = ("drop", "pad", "partial")
PATIENCE = 200
"""Seconds after which a process that hangs ends itself, and shows where it hung."""

Row = tuple[int, int, int, str, bool]
"""Of one record handed out: epoch, record_key, label, digest of the image, valid."""


def save_set(manifest: Manifest, folder: Path) -> None:
    """Write down which set the processes read."""
    manifest.frame.write_parquet(folder / "table.parquet")
    about = {"root": str(manifest.root), "classes": manifest.classes}
    (folder / "about.json").write_text(json.dumps(about))


def load_set(folder: Path) -> Manifest:
    about = json.loads((folder / "about.json").read_text())
    return Manifest(pl.read_parquet(folder / "table.parquet"), about["root"], about["classes"])


def own(values: Any) -> np.ndarray[Any, Any]:
    """This process's rows of an array, which may lie over devices of several processes."""
    if getattr(values, "is_fully_addressable", True):
        return np.asarray(values)
    starts = {part.index[0].start or 0: part.data for part in values.addressable_shards}
    return np.concatenate([starts[start] for start in sorted(starts)])


def rows(batch: Batch) -> list[Row]:
    names = ("epoch", "record_key", "label", "image")
    epochs, keys, labels, images = (own(batch[name]) for name in names)
    digests = [
        hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest() for image in images
    ]
    valid = own(batch["valid"]) if "valid" in batch else np.ones(len(keys), dtype=bool)
    return list(
        zip(epochs.tolist(), keys.tolist(), labels.tolist(), digests, valid.tolist(), strict=True)
    )


def make(
    manifest: Manifest,
    shard: ShardOptions | int,
    last_batch: LastBatch,
    framework: Framework = "numpy",
    **options: Any,
) -> Loader:
    """A loader of a shard, or one of this many processes, which finds its shard itself."""
    given = shard if isinstance(shard, ShardOptions) else None
    return Loader(
        manifest,
        sampler=IndexSampler(len(manifest), shuffle=True, seed=3),
        transforms=[
            tf.RandomResizedCrop(24),
            tf.RandomHorizontalFlip(),
            tf.Normalize(layout="NCHW"),
        ],
        batch_size=GLOBAL_BATCH // (given.shard_count if given else shard),
        shard=given,
        last_batch=last_batch,
        device="cpu",
        framework=framework,
        num_threads=1,
        **options,
    )


def feed(
    loader: Loader, on_batch: Callable[[Batch], None] | None = None
) -> list[tuple[int, list[Row]]]:
    """Iterate all epochs; return each step's number and what was handed out in it."""
    steps = []
    with loader:
        for _ in range(EPOCHS):
            for batch in loader:
                steps.append((loader.step - 1, rows(batch)))
                if on_batch is not None:
                    on_batch(batch)
    return steps


def disagree(manifest: Manifest, rank: int, **options: Any) -> dict[str, str]:
    """What a loader says, by what this process of two was given that the other was not."""
    half = manifest.take(np.arange(0, len(manifest), 2))
    given: dict[str, dict[str, Any]] = {
        "nothing": {},
        "seed": {"sampler": IndexSampler(len(manifest), shuffle=True, seed=rank)},
        "transforms": {"transforms": [tf.Resize((24, 24)), tf.Normalize(0.5 * rank)]},
        "batch_size": {"batch_size": 8 if rank else 4},
        "manifest": {"manifest": half, "sampler": None} if rank else {"sampler": None},
        "last_batch": {"last_batch": "pad" if rank else "drop"},
        "state": {},
        "same state": {},
    }
    if "sharding" not in options:
        given["shard"] = {"shard": ShardOptions(1, 2)}
        alone = IndexSampler(len(manifest), seed=rank)
        given["alone"] = {"shard": ShardOptions(), "sampler": alone}
    said = {}
    for name, settings in given.items():
        settled = {
            "manifest": manifest,
            "sampler": IndexSampler(len(manifest), shuffle=True, seed=3),
            "transforms": [tf.Resize((24, 24)), tf.Normalize()],
            "batch_size": 4,
            "device": "cpu",
            "num_threads": 1,
            **options,
            **settings,
        }
        with Loader(settled.pop("manifest"), **settled) as loader:
            if name == "seed" and not rank:
                loader.batch(1)  # which one process may do
            said[name] = ""
            try:
                batches = iter(loader)
                next(batches)
                if name in ("state", "same state"):
                    records = 16 if rank and name == "state" else 24
                    loader.load_state_dict({**loader.state_dict(), "records": records})
                    next(batches)
            except gpufeed.ConfigError as error:
                said[name] = str(error)
    return said


def feed_torch(manifest: Manifest) -> dict[str, Any]:
    """Also count, by a collective in each padded step, how often all processes got each record."""
    import torch
    from torch import distributed

    distributed.init_process_group("gloo", timeout=timedelta(seconds=PATIENCE))
    counts = torch.zeros(EPOCHS, len(manifest), dtype=torch.int64)

    def count_everywhere(batch: Batch) -> None:
        here = torch.zeros_like(counts)
        here[batch["epoch"][batch["valid"]], batch["record_key"][batch["valid"]]] += 1
        distributed.all_reduce(here)
        counts.add_(here)

    shard = gpufeed.shard_from_torch()
    assert shard == gpufeed.shard_from_env()
    steps = {}
    for ending in ENDINGS:
        on_batch = count_everywhere if ending == "pad" else None
        steps[ending] = feed(make(manifest, shard.shard_count, ending, "torch"), on_batch)
    said = disagree(manifest, shard.shard_index, framework="torch")
    distributed.destroy_process_group()
    return {"shard": shard, "steps": steps, "counts": counts.tolist(), "said": said}


def feed_jax(manifest: Manifest) -> dict[str, Any]:
    """As JAX numbers the processes, and over a mesh of which the second has the first part.

    Each process has two devices. Also count, by a collective in each padded step over the mesh, how
    often all processes got each record.
    """
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    # Made before the processes know of each other, which must not start JAX's backend.
    loaders = {ending: make(manifest, 2, ending, "jax") for ending in ENDINGS}
    process = int(os.environ["TEST_PROCESS"])
    jax.distributed.initialize(
        os.environ["TEST_COORDINATOR"], 2, process, initialization_timeout=PATIENCE
    )
    shard = gpufeed.shard_from_jax()
    numbered = {ending: feed(loader) for ending, loader in loaders.items()}
    devices = np.array(jax.devices()).reshape(2, 2)
    mesh = Mesh(devices[::-1], ("process", "device"))
    sharding = NamedSharding(mesh, P(("process", "device")))
    counts = jax.device_put(np.zeros((EPOCHS, len(manifest)), np.int32), NamedSharding(mesh, P()))

    @jax.jit
    def add(counts: jax.Array, batch: Batch) -> jax.Array:
        return counts.at[batch["epoch"], batch["record_key"]].add(batch["valid"].astype(jnp.int32))

    def count_everywhere(batch: Batch) -> None:
        nonlocal counts
        counts = add(counts, batch)

    steps = {
        ending: feed(make(manifest, 2, ending, "jax", sharding=sharding), on_batch)
        for ending, on_batch in (("drop", None), ("pad", count_everywhere))
    }
    whole = make(manifest, 2, "drop", "jax", sharding=sharding)
    one_each = NamedSharding(Mesh(devices[:, 0], ("process",)), P("process"))
    replicas = NamedSharding(mesh, P("device"))
    apart = NamedSharding(mesh, P(("device", "process")))
    own = NamedSharding(Mesh(devices[process], ("device",)), P("device"))
    refused = ""
    try:
        make(manifest, 2, "drop", "jax", sharding=apart)
    except gpufeed.ConfigError as error:
        refused = str(error)
    got = {
        "shard": shard,
        "steps": numbered,
        "mesh": steps,
        "counts": np.asarray(counts.addressable_data(0)).tolist(),
        "paths": whole.rows(whole.batch(0))["path"].to_list(),
        "one_each": rows(make(manifest, 2, "drop", "jax", sharding=one_each).batch(0)),
        "replicated": rows(make(manifest, 1, "drop", "jax", sharding=replicas).batch(0)),
        "refused": refused,
        "said": disagree(manifest, process, framework="jax", sharding=sharding),
        "alone": rows(next(iter(make(manifest, 1, "drop", "jax", sharding=own)))),
    }
    jax.distributed.shutdown()
    return got


def main(how: str, folder: Path, out: Path) -> None:
    """In each process."""
    # A collective that waits for ever holds no lock of Python's, but does not return to it either.
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    got = {"torch": feed_torch, "jax": feed_jax}[how](load_set(folder))
    got["shard"] = (got["shard"].shard_index, got["shard"].shard_count)
    # By process, not by shard: processes that take the same shard are then seen.
    (out / f"{os.getpid()}.json").write_text(json.dumps(got))


if __name__ == "__main__":
    arguments = (sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    if sys.argv[1] == "torch":
        fork_as_torchrun(main, *arguments)
    else:
        main(*arguments)
