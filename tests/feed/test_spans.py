"""What a loader tells of its work: figures, a timeline, and ranges in the traces of profilers."""

from __future__ import annotations

import gzip
import itertools
import json
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import jax
import nvtx
import pytest
import torch
from torch._C._profiler import _ExperimentalConfig

import gpufeed
from gpufeed import DecodeError, Loader, Manifest
from gpufeed._util.spans import STAGES, Spans
from tests.support.loaders import digest, make

ONCE = {"transforms": gpufeed.presets.evaluate(16), "batch_size": 16, "device": "cpu"}
RANGES = {f"gpufeed.{stage}" for stage in (*STAGES, "wait")}


def once(manifest: Manifest, **options: Any) -> Loader:
    """A loader that prepares nothing beyond the batches of a pass."""
    return Loader.for_evaluation(manifest, **{**ONCE, **options})


def traced(loader: Loader, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The spans of a loader's trace by track, with times in nanoseconds."""
    loader.trace(folder / "trace.json")
    found = json.loads((folder / "trace.json").read_text())
    names: dict[int, str] = {}
    tracks: dict[str, list[dict[str, Any]]] = {}
    for event in found["traceEvents"]:
        assert {"name", "ph", "pid", "tid"} <= event.keys()
        if event["name"] == "thread_name":
            names[event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X":
            begin = round(1000 * event["ts"])
            span = {"begin": begin, "end": begin + round(1000 * event["dur"]), **event["args"]}
            assert event["name"] == f"{event['cat']} {span['step']}"
            tracks.setdefault(names[event["tid"]], []).append({**span, "stage": event["cat"]})
    return tracks


def by_stage(tracks: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for span in itertools.chain(*tracks.values()):
        found[span["stage"]].append(span)
    return found


@pytest.mark.parametrize(
    "options",
    [{"opener": "threads"}, {"opener": "graph"}, {"cache": "host"}, {"cache": "device"}],
    ids=str,
)
def test_a_batch_goes_through_its_stages_in_order(
    pictures: Manifest, tmp_path: Path, options: dict[str, Any]
) -> None:
    with once(pictures, **options) as loader:
        for _ in range(2):  # the second time, from the cache
            assert len(list(loader)) == 4
            stages = by_stage(traced(loader, tmp_path))
    for step in range(4):
        own = {
            stage: [span for span in stages[stage] if span["step"] == step]
            for stage in (*STAGES, "wait")
        }
        assert len(own["wait"]) == 2
        # Each stage of the first pass ends before the next one, and before the second pass, begins.
        ends = [span["end"] for span in own["wait"]]
        for past, end in zip((0, ends[0]), ends, strict=True):
            last = past
            for stage in STAGES:
                spans = [span for span in own[stage] if past <= span["begin"] < end]
                assert spans, stage
                assert last <= min(span["begin"] for span in spans), stage
                last = max(span["end"] for span in spans)
            assert last <= end


def test_spans_of_a_track_do_not_overlap(pictures: Manifest, tmp_path: Path) -> None:
    with once(pictures, batch_size=4, num_threads=3) as loader:
        for _ in loader:
            time.sleep(0.002)
        tracks = traced(loader, tmp_path)
    for spans in tracks.values():
        spans.sort(key=lambda span: span["begin"])
        assert all(one["end"] <= other["begin"] for one, other in itertools.pairwise(spans))
    # The consumer waits for a batch and then works on it, with nothing between.
    consumer = tracks["consumer"]
    assert all(one["end"] == other["begin"] for one, other in itertools.pairwise(consumer))
    told = [(span["stage"], span["step"]) for span in consumer]
    assert told == [(stage, step) for step in range(13) for stage in ("wait", "work")][:-1]


def test_figures_are_the_sums_of_the_spans(pictures: Manifest, tmp_path: Path) -> None:
    with once(pictures) as loader:
        passes = [loader.stats for _ in range(2) for _ in [list(loader)]]
        stages = by_stage(traced(loader, tmp_path))
    sums = {
        stage: sum(span["end"] - span["begin"] for span in spans) / 1e9
        for stage, spans in stages.items()
    }
    assert {*passes[0].stages} == {*STAGES}
    for stage in STAGES:
        assert sum(each.stages[stage] for each in passes) == pytest.approx(sums[stage])
    assert sum(each.waited for each in passes) == pytest.approx(sums["wait"])
    assert f"run {passes[1].stages['run']:.3g} s" in repr(passes[1])


def test_bad_images_are_counted_whenever_they_come(own_pictures: Manifest) -> None:
    for key in (3, 20):
        (own_pictures.root / own_pictures.frame["path"][key]).write_bytes(b"no image")
    with once(own_pictures, on_error="blank", max_failures=1.0) as loader:
        for _ in range(2):
            assert len(list(loader)) == 2
            assert loader.stats.bad_images == 2
            assert "2 bad images" in repr(loader.stats)
        assert len(loader.quarantine) == 2


def test_the_place_is_told(pictures: Manifest) -> None:
    sampler = gpufeed.IndexSampler(50, num_epochs=2)
    with make(pictures, sampler=sampler, batch_size=16) as loader:
        for _ in loader.forever():
            stats = loader.stats
            assert stats.step == loader.step
            epoch = (loader.step - 1) // 3  # of the batch at hand
            place = (stats.epoch, stats.step_in_epoch, stats.steps_in_epoch)
            assert place == (epoch, loader.step - 3 * epoch, 3)
        assert place == (1, 3, 3)
        loader.seek(0)
        for _ in loader:
            pass
        assert "epoch 0, step 3 of 3;" in repr(loader.stats)  # between two epochs
        batches = iter(loader)
        assert "epoch 1, step 0 of 3;" in repr(loader.stats)
        next(batches)
        loader.seek(0)
        assert "epoch 0, step 0 of 3;" in repr(loader.stats)


def test_batches_become_ready_while_the_consumer_works(pictures: Manifest) -> None:
    with once(pictures, batch_size=4, prefetch=2) as loader:
        batches = iter(loader)
        assert loader.stats.ready == 0
        for left in range(12, -1, -1):
            next(batches)
            until = time.monotonic() + 60
            while loader.stats.ready < min(5, left):
                assert time.monotonic() < until
                time.sleep(0.001)
        assert loader.stats.ready == 0


def test_memory_is_bounded() -> None:
    spans = Spans()
    for step in range(10_000):
        spans.add("run", step, time.perf_counter_ns())
    latest = spans.latest()
    assert [span.step for span in latest] == [*range(2000, 10_000)]
    assert spans.sums["run"] > sum(span.end - span.begin for span in latest)


# ------------------------------------------------------------------------- profilers


def test_torchs_profiler_shows_the_stages(pictures: Manifest, tmp_path: Path) -> None:
    options = {"framework": "torch", "opener": "threads"}
    with once(pictures, **options) as loader:
        plain = [digest(batch) for batch in loader]
    found = []
    for everywhere in (False, True):
        path = str(tmp_path / "torch.json")
        config = _ExperimentalConfig(profile_all_threads=everywhere)
        profiler = torch.profiler.profile(experimental_config=config)
        with profiler, once(pictures, **options) as loader:  # closed first: all ranges have ended
            assert [digest(batch) for batch in loader] == plain
        profiler.export_chrome_trace(path)
        events = json.loads(Path(path).read_text())["traceEvents"]
        found.append(
            Counter(
                event["name"]
                for event in events
                if event.get("cat") == "user_annotation" and event["name"].startswith("gpufeed.")
            )
        )
    # Unless told otherwise it sees only the thread that takes batches.
    assert {*found[0]} == {"gpufeed.wait", "gpufeed.run", "gpufeed.hand_over"}
    assert {*found[1]} == RANGES
    for name in ("gpufeed.plan", "gpufeed.read", "gpufeed.wait", "gpufeed.hand_over"):
        assert found[1][name] == 4


def test_jaxs_profiler_shows_the_stages(pictures: Manifest, tmp_path: Path) -> None:
    options = {"framework": "jax", "opener": "threads"}
    with once(pictures, **options) as loader:
        plain = [digest(batch) for batch in loader]
    with jax.profiler.trace(tmp_path), once(pictures, **options) as loader:
        assert [digest(batch) for batch in loader] == plain
    (path,) = tmp_path.rglob("*.trace.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    steps = defaultdict(set)
    for event in events:
        if event.get("name", "").startswith("gpufeed."):
            steps[event["name"]].add(int(event["args"]["step"]))
    assert steps == {name: {0, 1, 2, 3} for name in RANGES}


def test_nvtx_shows_the_stages(own_pictures: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tool that listens; each thread's ranges end, also where a stage fails."""

    class Domain:
        def __init__(self) -> None:
            self.stacks: dict[int, list[str]] = defaultdict(list)
            self.seen: set[str] = set()

        def get_event_attributes(self, message: str, payload: int) -> str:
            return f"{message} {payload}"

        def push_range(self, attributes: str) -> None:
            self.seen.add(attributes)
            self.stacks[threading.get_ident()].append(attributes)

        def pop_range(self) -> None:
            self.stacks[threading.get_ident()].pop()

    domain = Domain()
    monkeypatch.setattr(nvtx, "get_domain", lambda name: {"gpufeed": domain}[name])
    (own_pictures.root / own_pictures.frame["path"][20]).write_bytes(b"no image")
    with once(own_pictures, opener="threads") as loader:
        next(batches := iter(loader))
        with pytest.raises(DecodeError):
            next(batches)
    stages = (*STAGES, "wait")
    assert {f"{stage} 0" for stage in stages} <= domain.seen
    assert not any(domain.stacks.values())
