"""Runs the contenders in turns, A B C A B C, and keeps what they answer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.compare.field import all_peers
from benchmarks.compare.peer import Peer
from benchmarks.compare.work import Work

__all__ = ["Absent", "Entry", "Process", "Result", "compare"]

_DRAIN = 8
"""Batches that a round takes before it is timed: more than any contender has begun ahead."""


@dataclass
class Entry:
    """What one contender answered.

    Attributes:
        name: the contender's.
        equal: whether it does the whole work.
        does: what it does, where it does not.
        first_batch_s: seconds from making the loader to its first batch, imports included.
        mean: of all pixels of two epochs.
        std: the batches' deviation, on average.
        warm: a dict of figures for each round with the files in the page cache.
        cold: likewise, with the files dropped from it.
        remarks: what a check found out of order, or how it failed.
    """

    name: str
    equal: bool
    does: str
    first_batch_s: float = 0.0
    mean: float = 0.0
    std: float = 0.0
    warm: list[dict[str, float]] = field(default_factory=list)
    cold: list[dict[str, float]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Absent:
    """A contender that can not run here."""

    name: str
    why: str


@dataclass
class Result:
    """One comparison.

    Attributes:
        work: name of the data, and how it is fed.
        entries: of those that ran.
        absent: of those that could not.
    """

    work: dict[str, Any]
    entries: list[Entry]
    absent: list[Absent]


class Process:
    """A contender's process; stopped while others have their turn, so that it takes nothing."""

    def __init__(
        self,
        work: Path,
        name: str,
        module: str = "benchmarks.compare.contender",
        **environment: str,
    ) -> None:
        self._read, write = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(work), name, str(write)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(write,),
            env={**os.environ, **environment},
            start_new_session=True,
            text=True,
        )
        os.close(write)
        self._requests: Any = self._process.stdin
        self._answers = os.fdopen(self._read)

    def ask(self, *request: Any) -> dict[str, Any]:
        """Let it run until it has answered; a dict with "error" where it failed."""
        self._signal(signal.SIGCONT)
        try:
            self._requests.write(json.dumps(request) + "\n")
            self._requests.flush()
            line = self._answers.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            return {"error": f"its process ended with exit code {self._process.wait()}"}
        self._signal(signal.SIGSTOP)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def end(self) -> None:
        """Kill it and all it started."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._answers.close()
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()


def compare(
    work: Work,
    *,
    rounds: int,
    batches: int,
    cold: bool,
    only: Sequence[str] = (),
    say: Callable[[str], None],
) -> Result:
    """Check every contender, then run them in turns.

    Args:
        work: what they do.
        rounds: timed ones, after one that warms up.
        batches: timed in each round.
        cold: whether to run each round also with the files out of the page cache.
        only: parts of the names of those that run; all where none is given.
        say: told how it goes.
    """
    absent: list[Absent] = []
    chosen: list[Peer] = []
    for peer in all_peers():
        if only and not any(part.lower() in peer.name.lower() for part in only):
            continue
        if why := peer.lacks(work.device):
            absent.append(Absent(peer.name, why))
        else:
            chosen.append(peer)

    entries: list[Entry] = []
    with tempfile.TemporaryDirectory() as scratch:
        described = Path(scratch) / "work.json"
        work.save(described)
        running: dict[str, Process] = {}
        try:
            for peer in chosen:
                entry = Entry(peer.name, peer.equal, peer.does)
                process = Process(described, peer.name)
                running[peer.name] = process
                if _admitted(process, entry, work):
                    entries.append(entry)
                    say(f"{peer.name}: ready, {'; '.join(entry.remarks) or 'in order'}")
                else:
                    absent.append(Absent(peer.name, entry.remarks[-1]))
                    say(f"{peer.name}: {entry.remarks[-1]}")
                    running.pop(peer.name).end()
            _compare_pixels(entries)
            for number in range(rounds + 1):
                for entry in list(entries):
                    answers = [running[entry.name].ask("round", batches, _DRAIN, False)]
                    if cold:
                        answers.append(running[entry.name].ask("round", batches, _DRAIN, True))
                    failed = next((each["error"] for each in answers if "error" in each), None)
                    if failed:
                        entries.remove(entry)
                        absent.append(Absent(entry.name, f"failed in round {number}: {failed}"))
                        continue
                    if number:
                        entry.warm.append(answers[0])
                        entry.cold += answers[1:]
                say(f"{work.name}, {work.batch_size} a batch: round {number} of {rounds}")
        finally:
            for process in running.values():
                process.end()
    about = {
        "name": work.name,
        "pictures": len(work.paths),
        "batch_size": work.batch_size,
        "size": work.size,
        "device": work.device,
        "cores": work.cores,
        "batches": batches,
    }
    return Result(about, entries, absent)


def _admitted(process: Process, entry: Entry, work: Work) -> bool:
    """Open a contender and check what it hands out; False where it can not take part."""
    opened = process.ask("open")
    if "error" in opened:
        entry.remarks.append(opened["error"])
        return False
    entry.first_batch_s = opened["first_batch_s"]
    if entry.name.startswith("limit"):
        return True
    found = process.ask("check")
    if "error" in found:
        entry.remarks.append(found["error"])
        return False
    wanted = f"{work.batch_size}x3x{work.size}x{work.size}"
    if (found["shape"], found["dtype"]) != (wanted, "float32"):
        entry.remarks.append(f"hands out {found['shape']} {found['dtype']}, not {wanted} float32")
        return False
    entry.mean, entry.std = found["mean"], found["std"]
    entry.remarks += _oddities(found, work)
    return True


def _compare_pixels(entries: Sequence[Entry]) -> None:
    """Remark where the pixels' statistics are not those of the others."""
    whole = [entry for entry in entries if entry.std]
    if not whole:
        return
    for name, allowed in (("mean", 0.05), ("std", 0.1)):
        middle = statistics.median(getattr(entry, name) for entry in whole)
        for entry in whole:
            found = getattr(entry, name)
            if abs(found - middle) > allowed:
                entry.remarks.append(
                    f"{name} of its pixels {found:.2f}, of the others {middle:.2f}"
                )


def _oddities(found: dict[str, Any], work: Work) -> list[str]:
    """What is not as it should be with two epochs' worth of pictures."""
    remarks = []
    labels = found["labels"]
    if not set(labels) <= set(range(len(work.paths))):
        remarks.append("labels that no picture has")
    # Two epochs give each picture twice, but for the tails and where an epoch's end falls.
    times = Counter(labels)
    distinct, most = len(times), max(times.values())
    if most > 3 or distinct < 0.9 * len(work.paths):
        remarks.append(
            f"in two epochs {distinct} of {len(work.paths)} pictures came, one of them {most} times"
        )
    # Both views of a picture are of the same scene: the means of many go together.
    views: dict[int, list[float]] = {}
    for label, mean in zip(labels, found["means"], strict=True):
        views.setdefault(label, []).append(mean)
    pairs = [each[:2] for each in views.values() if len(each) > 1]
    if len(pairs) >= 100:
        related = statistics.correlation([a for a, _ in pairs], [b for _, b in pairs])
        if related < 0.5:
            remarks.append(f"two views of a picture are hardly related ({related:.2f})")
    return remarks
