"""What a user's type checker must accept, and infer, of an installed gpufeed: never run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import polars as pl

import gpufeed
from gpufeed import presets, transforms
from gpufeed.errors import DecodeError

birds = gpufeed.read_nabirds("nabirds/", labels="species")
assert_type(birds, gpufeed.Manifest)
assert_type(birds.split("train"), gpufeed.Manifest)
assert_type(birds.frame, pl.DataFrame)
assert_type(birds.classes, tuple[str, ...])
assert_type(birds[0], gpufeed.Record)
assert_type(gpufeed.concat([birds, gpufeed.read_folder(Path("photos"))]), gpufeed.Manifest)
assert_type(gpufeed.read_table({"file": ["a.jpg"], "kind": [0]}, path="file"), gpufeed.Manifest)
assert_type(gpufeed.read_manifest("birds.manifest"), gpufeed.Manifest)

sampler = gpufeed.IndexSampler(len(birds), shuffle=True, seed=1)
weighted = gpufeed.WeightedSampler(gpufeed.balanced_weights(birds.frame["label"]))
assert_type(sampler[10**9], gpufeed.RecordMetadata)
samplers: Sequence[gpufeed.Sampler] = [sampler, weighted, gpufeed.SequentialSampler(3)]

steps = [gpufeed.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), gpufeed.Normalize()]
loader = gpufeed.Loader(
    birds,
    transforms=presets.train(224),
    sampler=sampler,
    batch_size={0: 64, 1000: 128},
    framework="torch",
    targets=["boxes", gpufeed.Mask("mask")],
    on_error="substitute",
    cache=[gpufeed.MemoryCache("8 GB"), gpufeed.DiskCache("/nvme", "200 GB")],
    shard=gpufeed.ShardOptions(0, 1),
)
with gpufeed.Loader(birds, transforms=steps, batch_size=64) as other:
    assert_type(other.step, int)
assert_type(loader.stats, gpufeed.Stats)
assert_type(loader.quarantine, gpufeed.Quarantine)
assert_type(len(loader), int)
assert_type(gpufeed.Loader.for_evaluation(birds, batch_size=64), gpufeed.Loader)
for batch in loader:
    image: Any = batch["image"]
state = loader.state_dict()
loader.load_state_dict(state)
try:
    batch = next(loader.forever())
    assert_type(loader.batch(12345), gpufeed.Batch)
except DecodeError as error:
    raise gpufeed.GpufeedError(str(error)) from error


class Photos:
    """A source of one's own."""

    def __len__(self) -> int:
        return 1

    def name(self, key: int) -> str:
        return f"photo {key}"

    def read(self, keys: "np.ndarray[Any, np.dtype[np.int64]]") -> Sequence[bytes | OSError]:
        return [b"" for _ in keys]


source: gpufeed.Source = Photos()
