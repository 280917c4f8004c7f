"""A batch whose source takes long is reported while its consumer waits."""

from __future__ import annotations

import io
import logging
import re
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

import gpufeed
from gpufeed import Manifest, RemoteStorage
from gpufeed._util.spans import Spans
from gpufeed.feed import patience
from tests.support.loaders import make
from tests.support.media import jpeg, picture


class Silent:
    """A store that gives no image until it is let go."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.storage: object = None
        self._image = jpeg(picture(40, 50, seed=0))

    def read(self, keys: npt.NDArray[np.int64]) -> list[bytes]:
        assert self.free.wait(60)
        return [self._image] * len(keys)

    def name(self, key: int) -> str:
        return f"image {key}"

    def open(self, key: int) -> io.BytesIO:  # noqa: ARG002
        return io.BytesIO(self._image)

    def __repr__(self) -> str:
        return "Silent()"


class Heard(logging.Handler):
    """Keeps messages, and lets the store go after `count` of them."""

    def __init__(self, store: Silent, count: int) -> None:
        super().__init__()
        self.messages: list[str] = []
        self._store, self._count = store, count

    def emit(self, record: logging.LogRecord) -> None:
        assert record.levelno == logging.WARNING
        self.messages.append(record.getMessage())
        if len(self.messages) == self._count:
            self._store.free.set()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    monkeypatch.setattr(patience, "SECONDS", 0.01)
    silent = Silent()
    yield silent
    silent.free.set()


def listed(store: Silent) -> Manifest:
    return gpufeed.read_table(pl.DataFrame({"label": [0] * 8}), source=store)


def heard(store: Silent, count: int = 1, read_timeout: float | None = None) -> list[str]:
    handler = Heard(store, count)
    logger = logging.getLogger("gpufeed")
    logger.addHandler(handler)
    try:
        with make(listed(store), read_timeout=read_timeout) as loader:
            for _ in loader:
                pass
    finally:
        logger.removeHandler(handler)
    return handler.messages


@pytest.mark.parametrize("read_timeout", [None, 900.0])
def test_the_line_names_the_source_and_the_end(store: Silent, read_timeout: float | None) -> None:
    (line,) = heard(store, read_timeout=read_timeout)
    assert re.match(r"gpufeed: waiting for batch 0, \d+ s so far: Silent\(\) has not", line)
    if read_timeout is None:
        assert line.endswith("it may wait indefinitely, since read_timeout is None")
    else:
        assert re.search(r"tried for read_timeout=900 s, until about \d\d:\d\d:\d\d$", line)


def test_the_line_has_the_retries_of_a_remote_storage(store: Silent) -> None:
    store.storage = RemoteStorage("memory://nowhere", retry_seconds=77)
    (line,) = heard(store, read_timeout=900)
    assert "each image is tried for retry_seconds=77 s, until about " in line


def test_it_comes_again_as_the_wait_doubles(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = iter(range(100))
    clock = SimpleNamespace(**{**vars(time), "monotonic": now.__next__})
    monkeypatch.setattr(patience, "time", clock)
    spans = Spans()
    waiting = patience.Patience(3, Silent(), None, spans)
    for _ in range(30):
        waiting.check()
    assert not caplog.records  # the batch is not being read
    with spans("read", 3):
        for _ in range(60):
            waiting.check()
    assert [record.args[1] for record in caplog.records] == [31, 40, 80]  # type: ignore[index]
