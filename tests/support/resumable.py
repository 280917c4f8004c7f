"""Runs that are stopped, and gone on with elsewhere: what tests/feed/test_resume.py compares.

python -m tests.support.resumable SET CASES OUT

Goes on with each case of the file CASES, as one process after the other of its new world would, and
writes what they are handed, by step, to the file OUT.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import gpufeed
from gpufeed import Loader, Manifest, Sampler, ShardOptions
from gpufeed.transforms import Transform
from tests.support.feed_a_shard import Row, load_set, rows

GLOBAL_BATCH = 12
EPOCHS = 3

SAMPLERS: dict[str, Callable[[Manifest, int], Sampler]] = {
    "sequential": lambda m, seed: gpufeed.SequentialSampler(len(m), seed=seed),
    "index": lambda m, seed: gpufeed.IndexSampler(len(m), shuffle=True, seed=seed),
    "virtual": lambda m, seed: gpufeed.IndexSampler(len(m), shuffle=True, seed=seed, epoch_size=31),
    "subset": lambda m, seed: gpufeed.SubsetSampler(
        len(m), np.arange(3, 44), shuffle=True, seed=seed
    ),
    "weighted": lambda m, seed: gpufeed.WeightedSampler(
        np.arange(1, len(m) + 1), seed=seed, epoch_size=40
    ),
    "without replacement": lambda m, seed: gpufeed.WeightedSampler(
        np.arange(1, len(m) + 1), replacement=False, seed=seed
    ),
    "balanced": lambda m, seed: gpufeed.ClassBalancedBatchSampler(
        m.frame["label"], classes_per_batch=3, records_per_class=4, seed=seed
    ),
    "repeated": lambda m, seed: gpufeed.RepeatedAugmentationSampler(len(m), repeats=3, seed=seed),
    "mixture": lambda m, seed: gpufeed.MixtureSampler([30, len(m) - 30], (1, 2), seed=seed),
}
PRESETS: dict[str, Callable[[], list[Transform]]] = {
    "train": lambda: gpufeed.presets.train(24),
    "evaluate": lambda: gpufeed.presets.evaluate(24),
    "course_train": lambda: gpufeed.presets.course_train(photometric=False),
    "course_evaluate": gpufeed.presets.course_evaluate,
}


@dataclass(frozen=True)
class Case:
    """A run, where it is stopped, and how it goes on."""

    sampler: str
    preset: str
    framework: Any
    last_batch: Any
    seed: int
    stop: int
    threads: int
    prefetch: int
    world: int
    state: Any = None


def make(manifest: Manifest, case: Case, shard: ShardOptions | None = None) -> Loader:
    shard = shard or ShardOptions()
    return Loader(
        manifest,
        sampler=SAMPLERS[case.sampler](manifest, case.seed),
        transforms=PRESETS[case.preset](),
        batch_size=GLOBAL_BATCH // shard.shard_count,
        shard=shard,
        last_batch=case.last_batch,
        device="cpu",
        framework=case.framework,
        num_threads=case.threads,
        prefetch=case.prefetch,
    )


def whole(manifest: Manifest, case: Case) -> dict[int, list[Row]]:
    """What the run is handed that nothing stops."""
    handed = {}
    with make(manifest, case) as loader:
        while loader.epoch < EPOCHS:
            for batch in loader:
                handed[loader.step - 1] = rows(batch)
    return handed


def stopped(manifest: Manifest, case: Case) -> Case:
    """The case with the state of its run after `stop` batches, others being under way."""
    with make(manifest, replace(case, threads=2, prefetch=3)) as loader:
        left = case.stop
        while left:
            for _batch in loader:
                left -= 1
                if not left:
                    break
        return replace(case, state=json.loads(json.dumps(loader.state_dict())))


def rest(manifest: Manifest, case: Case) -> dict[int, list[Row]]:
    """What the processes of the new world are handed, in the shards' order."""
    together: dict[int, list[Row]] = {}
    for index in range(case.world):
        with make(manifest, case, ShardOptions(index, case.world)) as loader:
            loader.load_state_dict(case.state)
            while loader.epoch < EPOCHS:
                for batch in loader:
                    together.setdefault(loader.step - 1, []).extend(rows(batch))
    return dict(sorted(together.items()))


def main(folder: Path, cases: Path, out: Path) -> None:
    manifest = load_set(folder)
    found = [rest(manifest, Case(**case)) for case in json.loads(cases.read_text())]
    out.write_text(json.dumps([list(each.items()) for each in found]))


def save_cases(cases: list[Case], path: Path) -> None:
    path.write_text(json.dumps([asdict(case) for case in cases]))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
