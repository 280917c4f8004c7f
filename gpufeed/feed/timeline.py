"""A timeline of the latest batches, in the trace format that Perfetto and Chrome read."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from gpufeed._util.spans import STAGES, Span

__all__ = ["timeline"]


def timeline(spans: Iterable[Span]) -> bytes:
    """Return the spans as JSON, with tracks for each stage and one for the consumer.

    Spans of a stage that overlap are on tracks of their own.
    """
    spans = sorted(spans, key=lambda span: span.begin)
    events: list[dict[str, Any]] = [_named("process_name", 0, "gpufeed")]
    tids = itertools.count(1)
    for stage in STAGES:
        own = [span for span in spans if span.stage == stage]
        for number, lane in enumerate(_lanes(own), 1):
            name = stage if number == 1 else f"{stage} {number}"
            events += _track(next(tids), name, lane)
    waits = [span for span in spans if span.stage == "wait"]
    events += _track(next(tids), "consumer", [*waits, *_work(waits)])
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode()


def _lanes(spans: Iterable[Span]) -> list[list[Span]]:
    """Share spans, in the order of their begins, among as few lanes as keep them apart."""
    lanes: list[list[Span]] = []
    for span in spans:
        lane = next((each for each in lanes if each[-1].end <= span.begin), None)
        if lane is None:
            lanes.append(lane := [])
        lane.append(span)
    return lanes


def _work(waits: list[Span]) -> Iterator[Span]:
    """Yield what the consumer does between its waits."""
    for wait, after in itertools.pairwise(waits):
        yield Span("work", wait.step, wait.end, after.begin)


def _track(tid: int, name: str, spans: Iterable[Span]) -> Iterator[dict[str, Any]]:
    yield _named("thread_name", tid, name)
    yield _event("thread_sort_index", "M", tid) | {"args": {"sort_index": tid}}
    for stage, step, begin, end in spans:
        yield _event(f"{stage} {step}", "X", tid) | {
            "cat": stage,
            "ts": begin / 1000,
            "dur": (end - begin) / 1000,
            "args": {"step": step},
        }


def _named(kind: str, tid: int, name: str) -> dict[str, Any]:
    return _event(kind, "M", tid) | {"args": {"name": name}}


def _event(name: str, phase: str, tid: int) -> dict[str, Any]:
    return {"name": name, "ph": phase, "pid": os.getpid(), "tid": tid}
