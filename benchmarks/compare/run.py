"""Running the contenders in turns, A B C A B C, and collecting their answers."""

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
from pathlib import Path
from typing import Any

from benchmarks.compare.cache import cached_share, drop
from benchmarks.compare.field import all_peers
from benchmarks.compare.packed import packed_files
from benchmarks.compare.peer import Peer
from benchmarks.compare.results import About, Absent, Entry, Result, Round
from benchmarks.compare.work import Work

__all__ = ["Absent", "Entry", "Process", "Result", "compare"]

Views = dict[str, dict[int, float]]
"""From a contender's name and an image's label to the mean of the pixels made of it."""

_APART = 0.02
"""How far means of one image may lie apart, in deviations: a grey level is 0.017."""

_LEFT = 0.1
"""Part of the files that may stay in the page cache: what contenders have mapped."""

_DRAIN = 8
"""Batches that a round takes before it is timed: more than any contender has begun ahead."""


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
            start_new_session=True,
            text=True,
            # What it writes goes with the comparison's own: it is killed and cannot clear up.
            env={**os.environ, "TMPDIR": str(work.parent), **environment},
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
    only: Sequence[str] = (),
    consumer: float | None = None,
    say: Callable[[str], None],
) -> Result:
    """Check every contender, then run them in turns.

    Args:
        work: what they do.
        rounds: timed ones, after one that warms up.
        batches: timed in each round. With `work.cold` each round is also run with the files out of
            the page cache.
        consumer: images/s that one takes which works on each batch, and how long it waits for them
            is taken in each round too.
        only: parts of the names of those that run; all where none is given.
        say: told how it goes.
    """
    absent: list[Absent] = []
    chosen: list[Peer] = []
    for peer in all_peers():
        if only and not any(part.lower() in peer.name.lower() for part in only):
            continue
        if why := peer.refusal(work):
            absent.append(Absent(peer.name, why))
        else:
            chosen.append(peer)

    entries: list[Entry] = []
    with tempfile.TemporaryDirectory() as scratch:
        described = Path(scratch) / "work.json"
        work.save(described)
        running: dict[str, Process] = {}
        views: Views = {}
        try:
            for peer in chosen:
                entry = Entry(peer.name, peer.equal, peer.does)
                process = Process(described, peer.name)
                running[peer.name] = process
                if _admitted(process, entry, work, views):
                    entries.append(entry)
                    say(f"{peer.name}: ready, {'; '.join(entry.remarks) or 'in order'}")
                else:
                    absent.append(Absent(peer.name, entry.remarks[-1]))
                    say(f"{peer.name}: {entry.remarks[-1]}")
                    running.pop(peer.name).end()
            _compare_pixels(entries)
            if work.preset == "evaluate":
                _compare_pictures(entries, views)
            for number in range(rounds + 1):
                for entry in list(entries):
                    process = running[entry.name]
                    answers = [_round(process, batches)]
                    if consumer and "error" not in answers[0]:
                        answers[0] |= process.ask("paced", batches, work.batch_size / consumer)
                    if work.cold:
                        files = [*work.files, *packed_files(Path(scratch))]
                        few = max(len(work.paths) // work.batch_size // 2, 1)
                        answers.append(_round(process, min(batches, few), files))
                    failed = next((each["error"] for each in answers if "error" in each), None)
                    if failed:
                        entries.remove(entry)
                        absent.append(Absent(entry.name, f"failed in round {number}: {failed}"))
                        continue
                    if number:
                        entry.warm.append(Round(**answers[0]))
                        entry.cold += [Round(**answer) for answer in answers[1:]]
                say(f"{work.name}, {work.batch_size} a batch: round {number} of {rounds}")
        finally:
            for process in running.values():
                process.end()
    about = About(
        name=work.name,
        pictures=len(work.paths),
        batch_size=work.batch_size,
        size=work.size,
        device=work.device,
        cores=work.cores,
        batches=batches,
        preset=work.preset,
        consumer=consumer,
    )
    return Result(about, entries, absent)


def _round(process: Process, batches: int, files: Sequence[str] = ()) -> dict[str, Any]:
    """Have a contender take its turn, with `files` dropped from the page cache before it.

    They are dropped while it is stopped, so that it cannot work ahead meanwhile. To be given no
    more batches than half an epoch has: few images then come twice, from the cache the second
    time.

    Raises:
        OSError: files cannot be dropped.
    """
    drained = process.ask("drain", _DRAIN)
    if "error" in drained:
        return drained
    if files:
        drop(files)
        if (share := cached_share(files)) > _LEFT:
            folder = os.path.commonpath(files)
            raise OSError(
                f"{100 * share:.0f} % of {folder} stay in the page cache; for a cold one, set "
                "TMPDIR to a folder on a disk that nobody else reads"
            )
    return process.ask("round", batches)


def _admitted(process: Process, entry: Entry, work: Work, views: Views) -> bool:
    """Open a contender and check what it hands out; False where it cannot take part.

    Its images' means go into `views`.
    """
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
    views[entry.name] = dict(zip(found["labels"], found["means"], strict=True))
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


def _compare_pictures(entries: Sequence[Entry], views: Views) -> None:
    """Remark where images that nothing random is done to are not those of the others."""
    named = [entry for entry in entries if entry.name in views]
    labels = set.intersection(*(set(views[entry.name]) for entry in named)) if named else set()
    if not labels:
        return
    middle = {
        label: statistics.median(views[entry.name][label] for entry in named) for label in labels
    }
    for entry in named:
        apart = statistics.mean(abs(views[entry.name][label] - middle[label]) for label in labels)
        if apart > _APART:
            entry.remarks.append(f"means of its images {apart:.3f} from those of the others")


def _oddities(found: dict[str, Any], work: Work) -> list[str]:
    """What is not as it should be with two epochs' worth of images."""
    remarks = []
    labels = found["labels"]
    if not set(labels) <= set(range(len(work.paths))):
        remarks.append("labels that no image has")
    # Two epochs give each image twice, but for the tails and where an epoch's end falls.
    times = Counter(labels)
    distinct, most = len(times), max(times.values())
    if most > 3 or distinct < 0.9 * len(work.paths):
        remarks.append(
            f"in two epochs {distinct} of {len(work.paths)} images came, one of them {most} times"
        )
    # Both views of an image are of the same scene: the means of many go together.
    views: dict[int, list[float]] = {}
    for label, mean in zip(labels, found["means"], strict=True):
        views.setdefault(label, []).append(mean)
    pairs = [each[:2] for each in views.values() if len(each) > 1]
    if work.preset == "evaluate":
        apart = max((abs(a - b) for a, b in pairs), default=0.0)
        if apart > _APART:
            remarks.append(f"means of two views of an image are {apart:.3f} apart")
    elif len(pairs) >= 100:
        related = statistics.correlation([a for a, _ in pairs], [b for _, b in pairs])
        if related < 0.5:
            remarks.append(f"two views of an image are hardly related ({related:.2f})")
    return remarks
