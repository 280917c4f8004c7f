"""Training models in turns, A B C A B C, each with another feed."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare.peer import Peer
from benchmarks.compare.run import Absent, Process
from benchmarks.compare.work import Work
from benchmarks.step.outcome import Fed, Round

__all__ = ["train"]

_SETTLE = 4
"""Untimed steps that begin a round, so that what was begun ahead is as it is in a long run."""

_MODULE = "benchmarks.step.trainee"
_ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads of a model on the CPU do not spin while they wait for each other: beside a loader, or
anyone else, on the same cores that made steps up to ten times as long, at random."""


def train(
    work: Work,
    feeds: Sequence[Peer],
    *,
    model: str,
    rounds: int,
    steps: int,
    say: Callable[[str], None],
    advance: Callable[[int], None],
) -> tuple[list[Fed], list[Absent]]:
    """Start a model for each feed, and let them train in turns.

    Args:
        work: what is fed.
        feeds: the ceiling first.
        model: its name.
        rounds: timed ones, after one that warms up.
        steps: timed in each round.
        say: told how it goes.
        advance: called with 1 after each turn.

    Raises:
        RuntimeError: the ceiling failed, or a feed did midway, or one fed another number of
            images, or its loss is not finite.
    """
    fed: list[Fed] = []
    absent: list[Absent] = []
    running: dict[str, Process] = {}
    with tempfile.TemporaryDirectory() as scratch:
        described = Path(scratch) / "work.json"
        work.save(described)
        try:
            for feed in feeds:  # all at once, since each first spends seconds on imports
                if not feed.lacks(work.device):
                    running[feed.name] = Process(described, feed.name, _MODULE, **_ENVIRONMENT)
            for feed in feeds:
                why = feed.lacks(work.device)
                if not why:
                    why = running[feed.name].ask("open", model).get("error", "")
                if not why:
                    fed.append(Fed(feed.name, feed.equal, feed.does, []))
                    say(f"{feed.name}: ready")
                    continue
                if feed is feeds[0]:
                    raise RuntimeError(f"no model could be made to train on {work.device}: {why}")
                absent.append(Absent(feed.name, why))
                say(f"{feed.name}: {why}")
                if feed.name in running:
                    running.pop(feed.name).end()
            for number in range(rounds + 1):
                rates = []
                for each in fed:
                    answer = running[each.name].ask("round", steps, _SETTLE)
                    turn = checked(answer, each.name, number, steps * work.batch_size)
                    if number:
                        each.rounds.append(turn)
                    rates.append(f"{each.name} {turn.rate:,.0f}")
                    advance(1)
                say(f"round {number} of {rounds}, images/s: {'; '.join(rates)}")
        finally:
            for process in running.values():
                process.end()
    return fed, absent


def checked(answer: dict[str, Any], name: str, number: int, images: int) -> Round:
    """Return what a turn found; raises RuntimeError where it is not what it should be."""
    if "error" in answer:
        raise RuntimeError(
            f"{name} failed in round {number}: {answer['error']}; name the others by --only"
        )
    turn = Round(**answer)
    if turn.images != images:
        raise RuntimeError(
            f"{name} fed {turn.images} images in round {number}, not {images} as the others did"
        )
    for step, loss in enumerate(turn.losses):
        if not math.isfinite(loss):
            raise RuntimeError(
                f"{name}: the loss is {loss} at step {step} of round {number}; its images are "
                "not what the others' are, or the run is too long for its rate of learning"
            )
    return turn
