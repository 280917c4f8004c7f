"""Memory that is used again is never in two hands."""

from __future__ import annotations

import gc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpufeed.engine.memory import Memory


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
