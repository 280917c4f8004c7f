"""Large images wait for each other, and small ones for nobody."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed import ConfigError, DeviceError, Manifest
from gpufeed.engine import device as devices
from gpufeed.open import budget as budgets
from gpufeed.open.budget import Budget, check_whole_images
from gpufeed.open.choice import LARGE
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


# ------------------------------------------------------------------- whole images on a GPU


def of_sizes(sizes: list[tuple[int, int]]) -> Manifest:
    height, width = zip(*sizes, strict=True)
    paths = [f"{number}.jpg" for number in range(len(sizes))]
    frame = pl.DataFrame({"path": paths, "label": 0, "height": height, "width": width})
    return Manifest(frame, "/", ["bird"])


SIZES = st.tuples(st.integers(1, 6000), st.integers(1, 6000))


@given(st.lists(SIZES, min_size=1, max_size=9), st.integers(1, 12), st.integers(1, 4), st.data())
def test_whole_images_must_fit(
    sizes: list[tuple[int, int]], batch_size: int, prefetch: int, data: st.DataObject
) -> None:
    """The largest batch of different images, three bytes a pixel, as often as DALI holds one."""
    pixels = sorted(height * width for height, width in sizes if height * width <= LARGE)
    needed = 3 * prefetch * sum(pixels[-batch_size:])
    free = data.draw(st.integers(max(0, needed - 2), needed + 2))
    kind: Any = data.draw(st.sampled_from(["cuda", "hardware"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budgets, "free_gpu_memory", {5: free}.__getitem__)

        def check() -> None:
            images = of_sizes(sizes)
            check_whole_images(images, {kind: 1.0}, gpu=5, batch_size=batch_size, prefetch=prefetch)

        if free >= needed:
            check()
        else:
            with pytest.raises(ConfigError, match=rf"batch_size is {batch_size} and prefetch"):
                check()


@pytest.mark.parametrize(
    ("shares", "taken"),
    [
        ({"threads": 0.5, "cuda": 0.25, "hardware": 0.25}, 4),
        ({"cuda_windows": 0.75, "cuda": 0.25}, 2),
        ({"threads": 1.0}, 0),
        ({"cuda_windows": 1.0}, 0),
    ],
)
def test_only_what_is_decoded_whole_is_counted(
    shares: Any, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = of_sizes([(10, 10)] * 8)
    how = {"gpu": 0, "batch_size": 8, "prefetch": 1}
    monkeypatch.setattr(budgets, "free_gpu_memory", lambda _: 300 * taken)
    check_whole_images(images, shares, **how)
    monkeypatch.setattr(budgets, "free_gpu_memory", lambda _: 300 * taken - 1)
    if taken:
        with pytest.raises(ConfigError, match=rf"the {taken} largest images"):
            check_whole_images(images, shares, **how)
    else:
        check_whole_images(images, shares, **how)


@pytest.mark.parametrize("opener", ["auto", "cuda", "hardware", "threads"])
def test_a_loader_asks_for_the_free_memory(opener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    large = of_sizes([(3000, 4000)] * 512)
    how: dict[str, Any] = {"device": "cuda", "batch_size": 256, "opener": opener}
    monkeypatch.setattr(devices, "gpu_count", lambda: 1)
    monkeypatch.setattr(budgets, "free_gpu_memory", {0: 16 * 10**9}.__getitem__)
    if opener == "threads":
        make(large, **how).close()
        return
    message = (
        r"^batch_size is 256 and prefetch 2, but the 256 largest images, which are decoded whole "
        r"on cuda:0, take 9.22 GB for each of 2 batches, and 16.00 GB are free; use a smaller "
        r'batch_size or prefetch, opener="threads", or smaller images \(gpufeed prepare\)$'
    )
    with pytest.raises(ConfigError, match=message):
        make(large, **how)
    make(large, **{**how, "batch_size": 128}).close()
    make(large, **how, prefetch=1).close()

    def fail(_: int) -> int:
        raise MemoryError("unknown error")

    monkeypatch.setattr(budgets, "free_gpu_memory", fail)
    with pytest.raises(DeviceError, match="the free memory of cuda:0 is unknown: unknown error"):
        make(large, **how)
