"""Trainers on two processes: together, record for record and byte for byte, one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufeed import Manifest
from tests.support.feed_a_shard import Row, rows
from tests.support.media import write_table
from tests.support.processes import TORCHRUN, run

pytest.importorskip("accelerate", reason="accelerate is not installed")
pytest.importorskip("lightning", reason="lightning is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

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
    with evaluation_loader(small, 2 * BATCH) as loader:
        batches = [rows(batch) for batch in loader]
    assert [row[1] for batch in batches for row in batch if row[4]] == list(range(len(small)))
    return batches


class TwoProcesses:
    """What two processes that train are handed."""

    def __init__(self, how: str, command: list[str], manifest: Manifest, out: Path) -> None:
        child = ["-m", train_in_processes.__name__, how, str(write_table(manifest)), str(out)]
        written = run([([*command, *child], {})], out)
        assert [each["shard"] for each in written] == [[0, 2], [1, 2]]
        self.seen = [each["seen"] for each in written]

    def each(self, trainer: str, name: str) -> list[Batches]:
        """The batches of a run, by process."""
        return [
            [[tuple(row) for row in batch] for batch in seen[trainer][name]] for seen in self.seen
        ]

    def together(self, trainer: str, name: str) -> Batches:
        """The global batches of a run."""
        first, second = self.each(trainer, name)
        assert {len(batch) for batch in first + second} == {BATCH}
        return [one + other for one, other in zip(first, second, strict=True)]


def test_lightning_starts_processes(
    small: Manifest, train: Batches, evaluation: Batches, tmp_path: Path
) -> None:
    """With a loader made before, one made when they are up, and one that a forked process makes."""
    ran = TwoProcesses("lightning", [], small, tmp_path)
    assert ran.together("lightning", "train") == train
    assert ran.together("lightning", "sanity_check") == evaluation[:2]
    assert ran.together("lightning", "validate") == evaluation * EPOCHS
    assert ran.together("lightning", "resumed") == train[SAVED_AT:]
    assert ran.together("lightning", "forked") == train


def test_trainers_under_torchrun(
    small: Manifest, train: Batches, evaluation: Batches, tmp_path: Path
) -> None:
    ran = TwoProcesses("torchrun", TORCHRUN, small, tmp_path)
    assert ran.together("accelerate", "train") == train
    assert ran.each("accelerate", "metrics") == [evaluation] * 2
    assert ran.together("accelerate", "resumed") == train[SAVED_AT:STEPS]
    assert ran.together("fabric", "train") == train[:STEPS]
    assert ran.together("fabric", "resumed") == train[SAVED_AT:STEPS]
    assert ran.together("transformers", "train") == train
    assert ran.together("transformers", "resumed") == train[SAVED_AT:]
    assert ran.together("transformers", "evaluate") == evaluation
    for seen in ran.seen:
        assert seen["transformers"]["predicted"] == [list(range(len(small)))]
