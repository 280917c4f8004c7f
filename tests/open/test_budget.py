"""Large images wait for each other, and small ones for nobody."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed.open import budget as budgets
from gpufeed.open.budget import Budget
from tests.support.loaders import make
from tests.support.media import make_manifest

FREE = budgets._UNCOUNTED_PIXELS


class WaitsError(Exception):
    """Something would have waited."""


class Impatient(threading.Condition):
    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002
        raise WaitsError


def impatient(most: int, threads: int = 1) -> Budget:
    """A budget at which a test fails where it would wait."""
    budget = Budget(most, threads)
    budget._released = Impatient()
    return budget


@given(st.integers(1, 12 * FREE), st.integers(1, 6), st.data())
def test_large_images_wait_for_room(most: int, threads: int, data: st.DataObject) -> None:
    """And one that is larger than all the room for nobody else to be there."""
    budget = impatient(most, threads)
    assert budget.pixels >= max(most, threads * 2 * FREE)
    under_way: list[tuple[int, Any]] = []
    for _ in range(data.draw(st.integers(1, 12))):
        taken = sum(other for other, _ in under_way if other > FREE)
        room = max(budget.pixels - taken, FREE)
        pixels = data.draw(
            st.integers(1, 3 * FREE) | st.sampled_from([FREE + 1, room, room + 1, 99 * FREE])
        )
        turn = budget.take(pixels)
        if pixels > FREE and taken and taken + pixels > budget.pixels:
            with pytest.raises(WaitsError):
                turn.__enter__()
            _, ended = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
            ended.__exit__(None, None, None)
        else:
            turn.__enter__()
            under_way.append((pixels, turn))


def test_who_waits_goes_on_when_there_is_room() -> None:
    waits = threading.Event()

    class Told(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            waits.set()
            return super().wait(timeout)

    def work() -> None:
        with budget.take(budget.pixels):
            pass

    budget = Budget(1, 1)
    budget._released = Told()
    threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    with budget.take(budget.pixels):
        for thread in threads:
            thread.start()
        assert waits.wait(60)
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def test_what_fails_gives_back_what_it_took() -> None:
    budget = impatient(1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), budget.take(budget.pixels):
            raise ZeroDivisionError


@pytest.mark.parametrize("policy", ["raise", "substitute"])
def test_all_threads_of_a_loader_have_one_budget(
    tmp_path: Path, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that mend a batch too, beside those that make the next ones."""
    manifest = make_manifest(tmp_path, [(30, 40)] * 50)
    if policy == "substitute":
        for key in range(0, 50, 5):
            (tmp_path / f"{key:05}.jpg").write_bytes(b"")
    asked: list[tuple[Budget, int]] = []
    take = Budget.take
    monkeypatch.setattr(
        Budget, "take", lambda self, pixels: asked.append((self, pixels)) or take(self, pixels)
    )
    with make(manifest, batch_size=10, on_error=policy, max_failures=1.0) as loader:
        assert sum(len(batch["label"]) for batch in loader) == 50
    assert len(asked) >= 50
    assert len(set(asked)) == 1
    assert asked[0][1] == 30 * 40


def test_a_budget_keeps_to_memory_but_takes_any_image() -> None:
    assert Budget(1, 8).pixels == 8 << 25
    assert Budget(1, 8, memory=9 << 26).pixels == 1 << 26
    assert Budget(1 << 27, 8, memory=9 << 20).pixels == 1 << 27
