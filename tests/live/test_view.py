"""The views of running loaders: what they say, in any width."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import struct
import sys
import termios
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from rich.console import Console

from gpufeed import cli
from gpufeed.cli.top import _keys
from gpufeed.live import snapshots, status_line, watch
from gpufeed.live.status_line import StatusLine
from gpufeed.live.view import view
from gpufeed.live.watch import _recent

NOW = 1000.0
"""Seconds by the clock of these tests, which stands still."""


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufeed.live.view.time", SimpleNamespace(monotonic=lambda: NOW))


def snapshot(**changes: Any) -> dict[str, Any]:
    """Of a loader that has fed 30 of 100 batches in a minute."""
    stages = {"plan": 1.0, "read": 1.0, "open": 7.0, "run": 1.0, "hand_over": 0.0}
    stats = {
        "batches": 30,
        "images": 240,
        "seconds": 60.0,
        "waited": 30.0,
        "cache_hits": [60],
        "fetched_images": 180,
        "stages": stages,
        "bad_images": 2,
        "ready": 1,
        "epoch": 4,
        "steps_in_epoch": 100,
        "step_in_epoch": 30,
    }
    recent = {"images_per_second": 1000.0, "waiting_share": 0.5, "stages": stages}
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "number": 0,
        "time": NOW,
        "images": 800,
        "source": "FileSource('\x1b/birds')",
        "device": "cpu",
        "threads": 3,
        "shard_index": 0,
        "shard_count": 1,
        "tiers": ["MemoryCache"],
        "readers": 1,
        "passes": 1,
        "waits": False,
        "stats": stats,
        "recent": recent,
        **changes,
    }


def drawn(shown: list[dict[str, Any]], width: int, **options: Any) -> list[str]:
    console = Console(file=io.StringIO(), width=width, **options)
    console.print(view(shown))
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 200])
def test_the_ranks_of_a_job_are_one_table(width: int) -> None:
    ranks = [snapshot(pid=100 + i, shard_index=i, shard_count=2) for i in range(2)]
    ranks[1]["time"] -= 3600
    other = snapshot(pid=300)
    lines = drawn([ranks[1], other, ranks[0]], width)
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert text.count("total") == 1
    (total,) = [line for line in lines if "total" in line]
    assert total.split() == ["total", "2,000", "50%"]
    rows = [line.split() for line in lines if " of 2 " in line or " of 1 " in line]
    assert [row[0] for row in rows] == ["100", "101", "300"]
    assert rows[0][:8] == ["100", "0", "of", "2", "1,000", "50%", "1", "4"]
    assert rows[0][-2:] == ["30%", "2:20"]
    assert rows[1][-3:] == ["silent", "3600", "s"]
    assert text.count("open 70%") == 2
    assert text.count("images from 25% MemoryCache, 75% source") == 2
    assert "4 bad images in this epoch" in text
    assert text.count("The loader is the limit; most of its time is open.") == 2
    assert "\x1b" not in text
    assert "FileSource('\\x1b/birds')" in text


def test_a_bar_of_colours_fills_the_line() -> None:
    lines = drawn([snapshot()], 102, color_system="truecolor", force_terminal=True)
    (bar,) = [line for line in lines if "█" in line]
    assert bar.count("█") == 100


def test_recent_figures_are_differences() -> None:
    now = snapshot()
    first = _recent(None, now)
    assert (first["images_per_second"], first["waiting_share"]) == (4.0, 0.5)
    assert first["stages"] == now["stats"]["stages"]
    later = snapshot(time=now["time"] + 5, stats=dict(now["stats"]))
    assert _recent(now, later)["waiting_share"] == 0
    assert _recent(now, {**later, "waits": True})["waiting_share"] == 1
    later["stats"].update(images=340, seconds=64.0, waited=31.0)
    assert _recent(now, later) == {
        "images_per_second": 20.0,
        "waiting_share": 0.25,
        "stages": dict.fromkeys(now["stats"]["stages"], 0.0),
    }


def test_stages_count_by_the_time_at_work() -> None:
    """Several readers read several batches at a time."""
    found = _recent(None, snapshot(readers=10))["stages"]
    assert found == {"plan": 0.1, "read": 0.1, "open": 7.0, "run": 1.0, "hand_over": 0.0}


def test_recent_figures_are_those_of_one_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where a pass takes longer than the one before took by its last snapshot."""
    stop, written = threading.Event(), []

    class Short:
        told: ClassVar = [(1, 400, 0.5), (1, 800, 0.8), (2, 90, 0.9)]

        def describe(self) -> dict[str, Any]:
            passes, images, seconds = self.told.pop(0)
            if not self.told:
                stop.set()
            now = snapshot(passes=passes)
            now["stats"].update(images=images, seconds=seconds, waited=0.45)
            return {**now, "time": float(passes)}

    loader = Short()
    monkeypatch.setattr(watch, "SECONDS", 0.001)
    monkeypatch.setattr(watch, "write", lambda _, each: written.append(each["recent"]))
    monkeypatch.setattr(snapshots, "SHARED", tmp_path)
    path = snapshots.path_of(0)
    watch._run(weakref.WeakMethod(loader.describe), {"number": 0}, path, None, stop)
    assert written[0]["images_per_second"] == 800
    assert (written[2]["images_per_second"], written[2]["waiting_share"]) == (100, 0.5)


def test_keys_that_come_together_are_all_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, terminal = os.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with _keys() as key:
            os.write(ours, b"xq")
            assert [key(), key()] == ["x", "q"]
    os.close(ours)


def test_the_status_line_keeps_the_last_line_and_gives_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    monkeypatch.setattr(status_line, "_STDERR", terminal)
    line = StatusLine()
    idle = snapshot()["recent"] | {"images_per_second": 0.0}
    line.show(snapshot(recent=idle))
    line.end()  # nothing yet
    for _ in range(2):
        line.show(snapshot())
        with ThreadPoolExecutor(1) as another:  # of a second loader, which ends before
            another.submit(line.show, snapshot(recent=idle)).result()
            another.submit(line.end).result()
    line.end()
    os.close(terminal)
    written = ""
    with contextlib.suppress(OSError):  # the end
        while True:
            written += os.read(ours, 10_000).decode()
    os.close(ours)
    assert written.count("\x1b[1;23r") == 1
    assert written.count("\x1b[24;1H\x1b[7mepoch 4: 30% | 2:20 left | 1,000 images/s | w") == 2
    assert "| waiting 50% | t\x1b[0m" in written  # 59 characters
    assert written.endswith("\x1b7\x1b[r\x1b[24;1H\x1b[K\x1b8")
    monkeypatch.setattr(status_line, "_STDERR", -1)
    line.show(snapshot())  # the terminal is gone


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(snapshots, "SHARED", tmp_path)
    assert cli.main(["top"]) == 0
    assert (
        capsys.readouterr().out == "No process of yours on this machine iterates over a loader.\n"
    )
    assert cli.main(["top", "1"]) == 2
    assert "error: process 1 feeds nothing: " in capsys.readouterr().err
    shown = snapshot()
    snapshots.write(snapshots.path_of(0), shown)
    for pid in ([], [str(os.getpid())], [str(os.getppid())]):
        assert cli.main(["top", *pid, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == [shown]
        assert cli.main(["top", *pid, "--once"]) == 0
        assert "The loader is the limit" in capsys.readouterr().out
