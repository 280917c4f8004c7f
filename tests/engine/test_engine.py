"""The engine: whatever order results are asked for in, each run has its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufeed import Loader, Manifest
from gpufeed.open.base import Opened
from tests.support.loaders import make


@pytest.fixture(scope="module")
def loader(pictures: Manifest) -> Iterator[Loader]:
    with make(pictures, batch_size=4, prefetch=2) as loader:
        yield loader


@pytest.fixture(scope="module")
def opened(loader: Loader) -> list[Opened]:
    maker = loader._maker
    maker.open()
    with maker.reader() as reader:
        return [maker.prepare(step, reader).result(60) for step in range(8)]


@pytest.fixture(scope="module")
def wanted(loader: Loader, opened: list[Opened]) -> list[bytes]:
    """Each by itself."""
    engine = loader._maker.engine
    return [pixels(engine.result(engine.begin(each))) for each in opened]


def pixels(views: object) -> bytes:
    assert isinstance(views, list)
    return b"".join(np.array(view).tobytes() for view in views)


@given(order=st.permutations(range(8)), dropped=st.sets(st.integers(0, 7), max_size=4))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_results_are_asked_for_in_any_order(
    loader: Loader, opened: list[Opened], wanted: list[bytes], order: list[int], dropped: set[int]
) -> None:
    engine = loader._maker.engine
    runs = {number: engine.begin(each) for number, each in enumerate(opened)}
    for number in dropped:
        del runs[number]
    for number in order:
        if number in runs:
            assert pixels(engine.result(runs[number])) == wanted[number]


def test_what_was_drained_is_gone(
    loader: Loader, opened: list[Opened], wanted: list[bytes]
) -> None:
    engine = loader._maker.engine
    engine.begin(opened[0])
    engine.begin(opened[1])
    engine.drain()
    assert pixels(engine.result(engine.begin(opened[2]))) == wanted[2]
