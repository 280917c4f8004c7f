"""What a soak measures is there, and what grows is told of."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import soak
from benchmarks.heap import spare_bytes
from benchmarks.soak import Look, broken, judge
from gpufeed.storage.readers import THREADS


def by_malloc_info(path: Path) -> int:
    """The same as malloc writes it down itself."""
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(bytes(path), b"w"))
    libc.malloc_info(0, file)
    libc.fclose(file)
    all_heaps = path.read_text().rpartition("</heap>")[2]
    return sum(map(int, re.findall(r'type="(?:fast|rest)" count="\d+" size="(\d+)"', all_heaps)))


def test_spare_memory_is_what_malloc_tells(tmp_path: Path) -> None:
    given_back = [bytes(50_000) for _ in range(400)]
    before = spare_bytes()
    del given_back[::2]  # every other one, so that none of it goes back to the system
    after = spare_bytes()
    assert after - before > 100 * 50_000
    assert abs(by_malloc_info(tmp_path / "told.xml") - after) < 1 << 20


LEVEL = [
    Look(10 * number, float(number), 200.0 + 30 * (number % 3), 100.0, 20.0, 30, 9, 4096)
    for number in range(1, 101)
]


def grown(**most: float) -> list[Look]:
    """Looks in which something grows steadily from a tenth on."""
    return [
        replace(
            each, **{name: getattr(each, name) + by * number / 100 for name, by in most.items()}
        )
        for number, each in enumerate(LEVEL)
    ]


@pytest.mark.parametrize(
    ("looks", "found"),
    [
        (LEVEL, []),
        (grown(rss_mib=50), []),
        (grown(own_mib=50, spare_mib=50), []),
        (grown(own_mib=2), []),
        (grown(own_mib=3), ["held"]),
        (grown(spare_mib=-3), ["held"]),
        (grown(threads=THREADS), []),
        (grown(threads=2 * THREADS), ["threads"]),
        (grown(descriptors=2), ["descriptors"]),
        (grown(shm_bytes=2), ["shm_bytes"]),
        (grown(own_mib=9, threads=99, descriptors=9), ["held", "threads", "descriptors"]),
    ],
)
def test_what_grows_is_named(looks: list[Look], found: list[str]) -> None:
    assert broken(judge(looks), 0.01) == found


@pytest.mark.parametrize("leaks", [False, True])
def test_a_leak_is_found(leaks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a twentieth of what is resident, in all."""
    monkeypatch.setattr(soak, "wait_until_quiet", lambda: 0.0)
    monkeypatch.setattr(soak.gc, "collect", lambda: 0)  # half a second, after other tests
    kept: list[bytes] = []
    resident = soak.look(0, 0.0).rss_mib
    size = int(leaks * resident * (1 << 20) / 20 / 200)

    def feed() -> Iterator[int]:
        for number in itertools.count(1):
            kept.append(b"x" * size)
            yield number

    looks = soak.soak(itertools.islice(feed(), 200), 200, 2)
    assert (judge(looks)["held"] > 0.01) == leaks
