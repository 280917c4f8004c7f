"""Memory that is used again is never in two hands, and nothing is kept that nobody wants."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed import IndexSampler, Loader
from gpufeed import transforms as tf
from gpufeed._util.memory import Memory, Slices
from tests.support.media import make_manifest


@given(st.lists(st.tuples(st.integers(1, 20_000), st.integers(0, 3)), max_size=40))
def test_what_is_held_is_left_alone(steps: list[tuple[int, int]]) -> None:
    """By whatever refers to it: a view of a view is enough."""
    memory = Memory()
    held: list[tuple[np.ndarray, int]] = []
    for number, (size, dropped) in enumerate(steps):
        whole = memory.take(size)
        assert whole.shape == (size,)
        whole[...] = number % 251
        held.append((whole[size // 2 :][::-1], number % 251))
        del whole
        for _ in range(min(dropped, len(held))):
            held.pop(0)
        for view, level in held:
            assert (view == level).all()


def test_it_is_used_again() -> None:
    memory = Memory()
    first = memory.take(10_000)
    address = first.ctypes.data
    view = first[10:]
    del first
    other = memory.take(10_000)
    assert other.ctypes.data != address
    del view
    gc.collect()
    assert memory.take(9_000).ctypes.data == address


@pytest.mark.parametrize("left_early", [False, True])
def test_a_loader_that_is_closed_lets_go_of_all_at_once(tmp_path: Path, left_early: bool) -> None:
    """It holds whole batches; the garbage collector may not come for long."""
    manifest = make_manifest(tmp_path, [(30, 40)] * 40)
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):  # closed while this or that is under way
            loader = Loader(
                manifest,
                sampler=IndexSampler(40, shuffle=True),
                transforms=[tf.RandomResizedCrop(16), tf.ToDtype("uint8")],
                batch_size=4,
                device="cpu",
            )
            held = [weakref.ref(each) for each in (loader, loader._maker, loader._planner)]
            for _ in loader:
                if left_early:
                    break
            loader.close()
            del loader
            assert [each() for each in held] == [None] * len(held)
    finally:
        gc.enable()


def test_batches_leave_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    """It comes when it likes, goes through all there is, and may find whole batches."""
    manifest = make_manifest(tmp_path, [(30, 40)] * 40)
    options: dict[str, Any] = {"batch_size": 1, "device": "cpu", "on_error": "substitute"}
    with Loader(manifest, transforms=[tf.Resize((8, 8)), tf.Normalize()], **options) as loader:
        for _ in loader:
            pass
        gc.collect()
        gc.disable()
        try:
            for _ in loader:
                pass
            assert gc.collect() < len(loader)
        finally:
            gc.enable()


def test_slices_that_are_held_are_left_alone() -> None:
    """By whatever refers to them, in as many blocks as they need."""
    drawn, slices = np.random.default_rng(0), Slices()
    held: list[tuple[memoryview, int]] = []
    for number in range(400):
        size = int(drawn.choice([0, 1, 64, 65, 100_000, 1 << 19]))
        taken = slices.take(size)
        assert taken is not None
        assert len(taken) == size
        level = number % 251
        taken[:] = bytes([level]) * size
        held.append((taken[size // 2 :].toreadonly(), level))
        del taken, held[: max(0, len(held) - int(drawn.integers(100)))]
        for view, each in held[::10]:
            assert view == bytes([each]) * len(view)


def test_blocks_of_slices_are_used_again() -> None:
    slices, addresses = Slices(), set()
    for _ in range(2000):  # a gigabyte
        taken = slices.take(1 << 19)
        addresses.add(np.frombuffer(taken, np.uint8).ctypes.data)
    assert len(addresses) <= 3 * 32
    assert slices.take((1 << 19) + 1) is None
