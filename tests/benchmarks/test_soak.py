"""What a soak measures is there, and what grows is told of."""

from __future__ import annotations

import itertools
import math
import mmap
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import soak
from benchmarks.soak import Look, broken, judge
from gpufeed.source.threads import THREADS
from tests.support.waiting import wait_until

LEVEL = [
    Look(10 * number, float(number), 2.0 * number, 0.1, 0.2, 200.0 + number % 2, 30, 9, 4096)
    for number in range(1, 101)
]


def grown(**most: float) -> list[Look]:
    """Looks in which something grows steadily, by so much in all."""
    return [
        replace(
            each, **{name: getattr(each, name) + by * number / 100 for name, by in most.items()}
        )
        for number, each in enumerate(LEVEL)
    ]


def slowed(share: float, *, plain: bool = False, what: str = "cpu_seconds") -> list[Look]:
    """Looks from the middle of which on batches take more time, and plain decode too."""
    each, spent = [], 0.0
    for number, look in enumerate(LEVEL):
        slower = 1 + share * (number > 50)
        spent += 2.0 * slower
        each.append(replace(look, **{what: spent, f"plain_{what}": 0.2 * (slower if plain else 1)}))
    return each


def settling() -> list[Look]:
    """Looks in the first twentieth of which much is begun."""
    return [
        replace(
            each,
            rss_mib=each.rss_mib - 50 * (number < 5),
            descriptors=each.descriptors - 5 * (number < 5),
            cpu_seconds=each.cpu_seconds - min(number, 4),
        )
        for number, each in enumerate(LEVEL)
    ]


@pytest.mark.parametrize(
    ("looks", "found"),
    [
        (LEVEL, []),
        (grown(rss_mib=2), []),
        (grown(rss_mib=3), ["resident"]),
        (grown(rss_mib=-50), []),
        (grown(threads=THREADS), []),
        (grown(threads=2 * THREADS), ["threads"]),
        (grown(descriptors=2), ["descriptors"]),
        (grown(shm_bytes=2), ["shm_bytes"]),
        (grown(rss_mib=9, threads=99, descriptors=9), ["resident", "threads", "descriptors"]),
        (slowed(0.04), []),
        (slowed(0.08), ["cpu"]),
        (slowed(0.5, plain=True), []),
        (slowed(0.04, what="seconds"), []),
        (slowed(0.08, what="seconds"), ["rate"]),
        (slowed(0.5, plain=True, what="seconds"), []),
        (slowed(-0.5, what="seconds"), []),
        (grown(seconds=50), []),
        (settling(), []),
    ],
)
def test_what_grows_is_named(looks: list[Look], found: list[str]) -> None:
    assert broken(judge(looks), 0.01, 0.05) == found
    assert broken(judge(looks), 0.01, math.inf) == [
        name for name in found if name not in ("cpu", "rate")
    ]


def test_the_rate_is_told() -> None:
    assert judge(LEVEL)["rate"] == pytest.approx(0)
    twice = [replace(each, seconds=2 * each.seconds) for each in LEVEL]
    late = [
        one if number < 50 else two
        for number, (one, two) in enumerate(zip(LEVEL, twice, strict=True))
    ]
    assert judge(late)["rate"] == pytest.approx(-0.5)


@pytest.mark.parametrize("leaks", [False, True])
def test_a_leak_is_found(leaks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a twentieth of what is resident, in all."""
    monkeypatch.setattr(soak, "wait_until_quiet", lambda: 0.0)
    monkeypatch.setattr(soak.gc, "collect", lambda: 0)  # half a second, after other tests
    kept: list[mmap.mmap] = []
    resident = soak.Watch(lambda: None).look(0).rss_mib
    size = int(leaks * resident * (1 << 20) / 20 / 200)

    def feed() -> Iterator[int]:
        for number in itertools.count(1):
            if size:  # from the system, since malloc may have enough that others gave back
                kept.append(mmap.mmap(-1, size))
                kept[-1].write(b"x" * size)
            yield number

    looks = soak.soak(itertools.islice(feed(), 200), 200, 2, lambda: None)
    assert (judge(looks)["resident"] > 0.01) == leaks


def test_a_look_sees_threads_files_and_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "wait_until_quiet", lambda: 0.0)
    monkeypatch.setattr(soak, "_SHARED", tmp_path)
    watch = soak.Watch(lambda: None)
    (tmp_path / "one").write_bytes(b"x" * 1000)

    def seen() -> bool:
        """Whether five threads and two files are; not where those of other tests end meanwhile."""
        ended = threading.Event()
        waiting = [threading.Thread(target=ended.wait) for _ in range(5)]
        before = watch.look(1)
        try:
            for each in waiting:
                each.start()
            with (tmp_path / "one").open(), (tmp_path / "one").open():
                after = watch.look(2)
        finally:
            ended.set()
            for each in waiting:
                each.join()
        assert (after.batches, after.shm_bytes) == (2, 1000)
        return (after.threads, after.descriptors) == (before.threads + 5, before.descriptors + 2)

    wait_until(seen)


def test_what_looks_take_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch takes 1 second and 3 of CPU time, what was begun ahead 5 more; a look 100 of each.

    And plain decode 7 and 9.
    """
    clock, spent = [0.0], [0.0]
    monkeypatch.setattr(soak.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(soak.time, "process_time", lambda: spent[0])

    def quiet() -> float:
        spent[0] += 5
        at = spent[0]
        clock[0] += 100
        spent[0] += 100
        return at

    def feed() -> Iterator[int]:
        for number in range(1, 7):
            clock[0] += 1
            spent[0] += 3
            yield number

    def plain() -> None:
        clock[0] += 7
        spent[0] += 9

    monkeypatch.setattr(soak, "wait_until_quiet", quiet)
    looks = soak.soak(feed(), 6, 2, plain)
    assert [(each.seconds, each.cpu_seconds) for each in looks] == [(2, 11), (4, 22), (6, 33)]
    assert {(each.plain_seconds, each.plain_cpu_seconds) for each in looks} == {(7, 9)}


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (["--batches", "29"], "29"),
        (["--epochs", "2"], "2"),
        (["--epochs", "30", "--looks", "0"], "0 looks"),
    ],
)
def test_too_few_to_tell_are_refused(
    given: list[str], count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        soak.main(given)
    assert f"{count} are too few to tell what grows; take 30" in capsys.readouterr().err


def test_malloc_is_told_to_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """By running again, since it reads its settings when a process begins."""
    begun: list[Any] = []

    def run(command: list[str], *, env: dict[str, str], check: bool) -> Any:
        begun.append((command, env))
        return SimpleNamespace(returncode=7)

    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "33554432")
    monkeypatch.setattr(soak.subprocess, "run", run)
    assert soak.main(["--epochs", "30", "--bad", "0.5"]) == 7
    ((command, environment),) = begun
    assert command[1:] == ["-m", "benchmarks.soak", "--epochs", "30", "--bad", "0.5"]
    assert environment == {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072"}
