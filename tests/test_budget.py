"""Large pictures wait for each other, and small ones for nobody."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed.open import budget as budgets
from gpufeed.open import host
from gpufeed.open.budget import Budget
from loaders import make
from media import make_manifest

FREE = budgets._FREE


class Meter:
    """How many pixels are worked on at a time."""

    def __init__(self) -> None:
        self.now = self.most = self.times = 0
        self.alone = True
        self._lock = threading.Lock()
        self._count = 0

    def work(self, pixels: int) -> None:
        with self._lock:
            self._count += 1
            self.now += pixels
            if self._count > 1:
                self.most = max(self.most, self.now)
        time.sleep(0.001)
        with self._lock:
            self._count -= 1
            self.now -= pixels
            self.times += 1


@given(
    st.lists(st.integers(FREE + 1, 8 * FREE), min_size=1, max_size=24),
    st.integers(1, 12 * FREE),
    st.integers(1, 6),
)
def test_there_are_never_more_at_a_time(sizes: list[int], most: int, threads: int) -> None:
    """But for one that is larger than that alone; and each has its turn."""
    budget, meter = Budget(most, threads), Meter()
    assert budget.pixels >= max(most, threads * 2 * FREE)

    def work(pixels: int) -> None:
        with budget.take(pixels):
            meter.work(pixels)

    workers = [threading.Thread(target=work, args=(pixels,)) for pixels in sizes]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert meter.times == len(sizes)
    assert meter.now == 0
    assert meter.most <= budget.pixels


def test_what_fails_gives_back_what_it_took() -> None:
    budget = Budget(1, 1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), budget.take(budget.pixels):
            raise ZeroDivisionError


def test_small_ones_wait_for_nobody() -> None:
    budget = Budget(1, 1)
    with budget.take(budget.pixels), budget.take(FREE), budget.take(FREE):
        pass


@pytest.mark.parametrize("policy", ["raise", "substitute"])
def test_all_threads_of_a_loader_have_one_budget(
    tmp_path: Path, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that mend a batch too, beside those that make the next ones."""
    manifest = make_manifest(tmp_path, [(30, 40)] * 50)
    if policy == "substitute":
        for key in range(0, 50, 5):
            (tmp_path / f"{key:05}.jpg").write_bytes(b"")
    monkeypatch.setattr(budgets, "_FREE", 100)
    monkeypatch.setattr(budgets, "_EACH", 1)
    meter = Meter()
    work = host._Batch._open

    def measured(batch: Any, place: int) -> None:
        meter.work(1200)
        work(batch, place)

    monkeypatch.setattr(host._Batch, "_open", measured)
    options = {"on_error": policy, "max_failures": 1.0, "num_threads": 4, "max_pixels": 3000}
    with make(manifest, batch_size=10, **options) as loader:
        for _ in range(3):
            assert sum(len(batch["label"]) for batch in loader) == 50
    assert meter.most == 2400
