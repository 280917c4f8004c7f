"""A Loader in Ray Train: two workers, which fail after a checkpoint and go on from it.

The extra `ray` does not install all of it: `pip install "ray[train]"`.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpufeed import Manifest
from tests.support.feed_a_shard import rows
from tests.support.media import write_table
from tests.support.processes import run

if find_spec("ray") is None:
    pytest.skip("ray is not installed", allow_module_level=True)

from tests.support.train_in_processes import BATCH, EPOCHS, SAVED_AT, train_loader

STEPS = 4
"""Batches in an epoch: 26 records in global batches of 8, the last 6 of which are padding."""


def test_workers_go_on_from_a_checkpoint(small: Manifest, tmp_path: Path) -> None:
    command = ["-m", "tests.support.train_on_ray", str(write_table(small)), str(tmp_path)]
    # Ray's sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as short:
        environ = {"RAY_TMPDIR": short, "RAY_TRAIN_V2_ENABLED": "1", "RAY_USAGE_STATS_ENABLED": "0"}
        written = run([(command, environ)], tmp_path)
    with train_loader(small, 2 * BATCH) as loader:
        whole = [rows(loader.batch(step)) for step in range(EPOCHS * STEPS)]
    for resumed, expected in ((False, whole[:SAVED_AT]), (True, whole[SAVED_AT:])):
        workers = [each for each in written if each["resumed"] is resumed]
        assert [each["shard"] for each in workers] == [[0, 2], [1, 2]]
        first, second = (each["seen"] for each in workers)
        together = [one + other for one, other in zip(first, second, strict=True)]
        assert [[tuple(row) for row in batch] for batch in together] == expected
