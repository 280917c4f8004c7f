"""Trainers on two processes: together, record for record and byte for byte, one process."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gpufeed import Manifest
from tests.support.feed_a_shard import Row, rows
from tests.support.media import write_table
from tests.support.processes import run

if not all(map(find_spec, ("accelerate", "lightning", "transformers"))):
    pytest.skip("not all of the trainers are installed", allow_module_level=True)

from tests.support import train_in_processes
from tests.support.train_in_processes import (
    BATCH,
    EPOCHS,
    SAVED_AT,
    evaluation_loader,
    train_loader,
)

STEPS = 4
"""Batches in an epoch: 26 records in global batches of 8, the last 6 of which are padding."""

Batches = list[list[Row]]


@pytest.fixture(scope="module")
def train(small: Manifest) -> Batches:
    """What one process is handed that takes the global batch."""
    with train_loader(small, 2 * BATCH) as loader:
        batches = [rows(loader.batch(step)) for step in range(EPOCHS * STEPS)]
    valid = sorted(row[:2] for batch in batches for row in batch if row[4])
    assert valid == [(epoch, key) for epoch in range(EPOCHS) for key in range(len(small))]
    return batches


@pytest.fixture(scope="module")
def evaluation(small: Manifest) -> Batches:
    with evaluation_loader(small, 2 * BATCH, last_batch="pad") as loader:
        batches = [rows(batch) for batch in loader]
    assert [row[1] for batch in batches for row in batch if row[4]] == list(range(len(small)))
    return batches


class TwoProcesses:
    """What two processes that train are handed, by how they were started."""

    def __init__(self, manifest: Manifest, out: Path) -> None:
        child = ["-m", train_in_processes.__name__, str(write_table(manifest)), str(out)]
        self.seen: dict[str, list[Any]] = {"lightning": [], "torchrun": []}
        for written in run([(child, {})], out):
            shards = self.seen[written["how"]]
            assert written["shard"] == [len(shards), 2]
            shards.append(written["seen"])
        assert [len(shards) for shards in self.seen.values()] == [2, 2]

    def each(self, trainer: str, name: str) -> list[Batches]:
        """The batches of a run, by process."""
        how = "lightning" if trainer == "lightning" else "torchrun"
        return [
            [[tuple(row) for row in batch] for batch in seen[trainer][name]]
            for seen in self.seen[how]
        ]

    def together(self, trainer: str, name: str) -> Batches:
        """The global batches of a run."""
        first, second = self.each(trainer, name)
        assert {len(batch) for batch in first + second} == {BATCH}
        return [one + other for one, other in zip(first, second, strict=True)]


@pytest.fixture(scope="module")
def ran(small: Manifest, tmp_path_factory: pytest.TempPathFactory) -> TwoProcesses:
    return TwoProcesses(small, tmp_path_factory.mktemp("ran"))


def test_lightning_starts_processes(ran: TwoProcesses, train: Batches, evaluation: Batches) -> None:
    """With a loader made before, one made when they are up, and one that a forked process makes."""
    assert ran.together("lightning", "train") == train
    assert ran.together("lightning", "sanity_check") == evaluation[:2]
    assert ran.together("lightning", "validate") == evaluation * EPOCHS
    assert ran.together("lightning", "resumed") == train[SAVED_AT:]
    assert ran.together("lightning", "forked") == train


def test_trainers_under_torchrun(
    small: Manifest, ran: TwoProcesses, train: Batches, evaluation: Batches
) -> None:
    assert ran.together("accelerate", "train") == train
    assert ran.each("accelerate", "metrics") == [evaluation] * 2
    assert ran.together("accelerate", "resumed") == train[SAVED_AT:STEPS]
    assert ran.together("fabric", "train") == train[:STEPS]
    assert ran.together("fabric", "resumed") == train[SAVED_AT:STEPS]
    assert ran.together("transformers", "train") == train
    assert ran.together("transformers", "resumed") == train[SAVED_AT:]
    assert ran.together("transformers", "evaluate") == evaluation
    for seen in ran.seen["torchrun"]:
        assert seen["transformers"]["predicted"] == [list(range(len(small)))]
