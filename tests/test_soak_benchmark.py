"""What a soak measures is there, and what grows is told of."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import soak
from benchmarks.soak import Look, broken, judge
from gpufeed.storage.readers import THREADS

LEVEL = [
    Look(10 * number, float(number), 2.0 * number, 200.0 + number % 2, 30, 9, 4096)
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


def slowed(share: float) -> list[Look]:
    """Looks between which batches take ever more CPU time, and at the end a share more."""
    each, spent = [], 0.0
    for number, look in enumerate(LEVEL):
        spent += 2.0 * (1 + share * number / 90)
        each.append(replace(look, cpu_seconds=spent))
    return each


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
        (grown(seconds=50), []),
    ],
)
def test_what_grows_is_named(looks: list[Look], found: list[str]) -> None:
    assert broken(judge(looks), 0.01, 0.05) == found


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
    kept: list[bytes] = []
    resident = soak.Watch().look(0).rss_mib
    size = int(leaks * resident * (1 << 20) / 20 / 200)

    def feed() -> Iterator[int]:
        for number in itertools.count(1):
            kept.append(b"x" * size)
            yield number

    looks = soak.soak(itertools.islice(feed(), 200), 200, 2)
    assert (judge(looks)["resident"] > 0.01) == leaks


def test_malloc_is_told_to_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """By running again, since it reads its settings when a process begins."""
    begun: list[Any] = []

    def run(command: list[str], *, env: dict[str, str], check: bool) -> Any:
        begun.append((command, env))
        return SimpleNamespace(returncode=7)

    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    monkeypatch.setattr(soak.subprocess, "run", run)
    assert soak.main(["--epochs", "2", "--bad", "0.5"]) == 7
    ((command, environment),) = begun
    assert command[1:] == ["-m", "benchmarks.soak", "--epochs", "2", "--bad", "0.5"]
    assert environment == {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072"}
