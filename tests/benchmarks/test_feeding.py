"""The benchmark of what comes before DALI measures the interpreter's lock, and runs."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import feeding, lock_share
from benchmarks.lock_share import LockShare


def share(work: Callable[[], object]) -> float:
    with LockShare() as lock:
        while lock.samples < 100:
            work()
    return lock.share


def test_a_thread_that_waits_for_python_code_is_seen() -> None:
    assert share(lambda: sum(range(100_000))) > 0


@pytest.mark.parametrize(("waits", "held"), [(1, 0), (2, 1)])
def test_a_sample_counts_if_it_waits_for_more_than_its_time(
    monkeypatch: pytest.MonkeyPatch, waits: int, held: int
) -> None:
    switches = itertools.count(0, waits)
    monkeypatch.setattr(lock_share, "_switches", lambda: next(switches))
    assert share(lambda: time.sleep(0.001)) == held


def test_it_measures_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_BATCH": 4, "_FILES": 8, "_DRAWN": 1, "_RECORDS": 64}.items():
        monkeypatch.setattr(feeding, name, value)
    report = tmp_path / "report.json"
    counts = ["--rounds", "1", "--batches", "20", "--cores", "1"]
    feeding.main([*counts, "--kinds", "tiny", "progressive", "--json", str(report)])
    found = json.loads(report.read_text())
    for kind in ("tiny", "progressive"):
        assert found[kind]["images_per_second"] > 0
        assert found[kind]["lock_us_per_image"] >= 0
        assert list(found[kind]["by_cores"]) == ["1"]
