"""The slow store, and feeds from it."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from benchmarks.storage.real import FEEDS, Epoch, Options, Turn, run
from benchmarks.storage.report import figures, first_epochs, table
from benchmarks.store import Store


def test_a_store_gives_parts_of_files_and_counts_them(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "a b.bin").write_bytes(bytes(range(100)))
    with Store(tmp_path) as store:
        request = urllib.request.Request(f"{store.address}/bucket/a%20b.bin")  # noqa: S310
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            assert answer.read() == bytes(range(100))
        request.add_header("Range", "bytes=90-200")
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            assert answer.read() == bytes(range(90, 100))
            assert answer.headers["Content-Range"] == "bytes 90-99/100"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{store.address}/bucket/../store.py")  # noqa: S310
        counts = store.counts()
        assert (counts.requests, counts.sent, counts.peak) == (3, 110, 1)
        assert store.counts().requests == 0


def test_a_feed_gives_every_image_in_each_epoch() -> None:
    options = Options(64, 9_000, [0.5], latency=0, rate=1e3, epochs=2, rounds=1, work=0)
    (turn,) = run(options, [feed for feed in FEEDS if feed.name == "gpufeed"])
    assert [epoch.distinct for epoch in turn.epochs] == [1, 1]
    assert sum(epoch.fetched for epoch in turn.epochs) >= 1
    assert all(epoch.cpu_seconds > 0 for epoch in turn.epochs)


def test_figures_are_of_epochs_after_the_first() -> None:
    def turn(name: str, first: float) -> Turn:
        epochs = [Epoch(seconds, 0.1, 0.25, 1, 1) for seconds in (first, 1, 3)]
        return Turn(name, 0.5, epochs)

    turns = [turn("plain", 8), turn("gpufeed", 10), turn("plain", 12), turn("gpufeed", 10)]
    found = list(figures(turns, 100))
    assert found[1].images_per_second.median == 50
    assert found[1].first.median == 10
    assert found[1].cpu_ms.median == pytest.approx(1)
    ratio = first_epochs(turns, "gpufeed", "plain")
    assert ratio
    assert (ratio.low, ratio.high) == (0.8, 1.2)
    assert "| 50 | gpufeed | 50 (50 to 50) | 25 | 75 | 1.00 | 10 | 1.0 |" in table(found)
