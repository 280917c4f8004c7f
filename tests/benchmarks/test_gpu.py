"""The run for a GPU, on the CPU: it loses nothing, goes on where it stopped, and its cases work."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from benchmarks.gpu import __main__ as program
from benchmarks.gpu.command import _rows
from benchmarks.gpu.job import Job
from benchmarks.gpu.openers import best_options
from benchmarks.gpu.results import Results
from benchmarks.gpu.runner import _follow, _Process, run_step
from benchmarks.gpu.steps import STEPS, Step
from tests.support import faulty_step
from tests.support.waiting import wait_until

FAULTY = Step("faulty_step", 1000, 1000, "tests.support")


def job(out: Path, photos: object = "", *, quick: bool = True, device: str = "cpu") -> Job:
    return Job(device, str(photos), str(out), cores=2, quick=quick)


def read(out: Path) -> Any:
    return json.loads((out / "results.json").read_text())["steps"]


def test_a_crash_costs_one_case(tmp_path: Path) -> None:
    results = Results(tmp_path, "cpu")
    run_step(FAULTY, job(tmp_path), results, math.inf, lambda _: None)
    step = read(tmp_path)["faulty_step"]
    assert step["complete"]
    assert step["about"] == "A step of which cases fail in every way."
    cases = step["cases"]
    assert cases == {
        "fine": {"figure": 1234.5, "ok": True, "goal": "1 or more", "found": 1234.5},
        "raises": {"error": "ValueError: no such | thing"},
        "crashes": {"error": "crashed: SIGSEGV"},
        "absent": {"absent": "needs a GPU: there is none"},
        "with rows: one": {"figure": 1},
        "with rows: two": {"ok": False},
        "with rows": {},
        "hangs": {},
        "after": {"earlier": ", ".join([*cases][:-1])},
    }
    assert results.failures() == [
        "faulty_step: raises: ValueError: no such | thing",
        "faulty_step: crashes: crashed: SIGSEGV",
        "faulty_step: with rows: two: not as it should be",
    ]
    summary = (tmp_path / "summary.md").read_text()
    assert "# gpufeed on the CPU, where only the program itself is tried" in summary
    assert "| faulty_step: fine | 1 or more | 1,234 | yes |" in summary
    assert "- faulty_step: raises: ValueError: no such / thing\n" in summary
    assert "==== faulty_step: crashes: crashed: SIGSEGV" in (tmp_path / "log.txt").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "summary.md", "log.txt"}


def test_a_run_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    results = Results(tmp_path, "cpu")
    run_step(FAULTY, job(tmp_path), results, -math.inf, lambda _: None)  # no time
    assert read(tmp_path)["faulty_step"]["cases"] == {}
    for case in faulty_step.cases(job(tmp_path)):
        if case != "after":
            results.add("faulty_step", case, {"kept": True}, 0)
    again = Results(tmp_path, "cpu")
    assert not again.complete("faulty_step")
    run_step(FAULTY, job(tmp_path), again, math.inf, lambda _: None)
    cases = read(tmp_path)["faulty_step"]["cases"]
    assert cases.pop("after") == {"earlier": ", ".join(cases)}
    assert all(facts == {"kept": True} for facts in cases.values())
    assert Results(tmp_path, "cpu").complete("faulty_step")
    with pytest.raises(ValueError, match="holds results of cpu; give another --out"):
        Results(tmp_path, "cuda")


def test_a_step_that_cannot_begin_is_not_tried_again(tmp_path: Path) -> None:
    missing = Step("no_such_step", 1000, 1000)
    results = Results(tmp_path, "cpu")
    run_step(missing, job(tmp_path), results, math.inf, lambda _: None)
    assert read(tmp_path)["no_such_step"]["cases"] == {"(start)": {"error": "exit code 1"}}
    assert results.complete("no_such_step")
    assert "No module named 'benchmarks.gpu.no_such_step'" in (tmp_path / "log.txt").read_text()


class Stuck:
    """A process whose case neither ends nor says anything."""

    def __init__(self) -> None:
        self.killed = False

    def rows(self) -> Iterator[dict[str, Any] | None]:
        yield {"about": "x"}
        yield {"begun": "slow"}
        yield None

    def kill(self) -> None:
        self.killed = True


@pytest.mark.parametrize(
    ("patience", "until", "said"),
    [(-1.0, math.inf, r"stopped after \d+ s"), (1e9, -math.inf, "no time left")],
)
def test_a_case_that_takes_too_long_is_stopped(
    tmp_path: Path, patience: float, until: float, said: str
) -> None:
    stuck: Any = Stuck()
    step = Step("x", 1e9, patience)
    found, case = _follow(stuck, step, Results(tmp_path, "cpu"), until, lambda _: None)
    assert re.fullmatch(said, found)
    assert case == "slow"
    assert stuck.killed


def ended(process: int) -> bool:
    try:
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_stopped_case_leaves_no_process(tmp_path: Path) -> None:
    known = {case: {} for case in faulty_step.cases(job(tmp_path)) if case != "hangs"}
    process = _Process(FAULTY, replace(job(tmp_path, quick=False), known=known), tmp_path)
    sleeper = tmp_path / "sleeper"
    for _ in process.rows():
        if sleeper.exists() and sleeper.read_text():
            break
    process.kill()
    assert process.ending in ("exit code 143", "crashed: SIGKILL")
    wait_until(lambda: ended(int(sleeper.read_text())))


def test_the_program_on_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "_IMAGES", {True: 3})
    options = ["--out", str(tmp_path), "--device", "cpu", "--quick", "--only", "openers"]
    assert program.main(options) == 0
    cases = read(tmp_path)["openers"]["cases"]
    for name in ("alone: DALI, whole images", "opener: threads", "opener: graph", "prefetch 1"):
        assert {"low", "images/s", "high"} <= cases[name].keys()
    # The advice follows from the figures that were written down, whichever they are.
    figures = {name: facts for name, facts in cases.items() if name != "the best"}
    options = best_options(replace(job(tmp_path), known=figures))
    assert cases["the best"]["options"] == ", ".join(f"{k}={v!r}" for k, v in options.items())
    shown = " ".join(capsys.readouterr().out.split())
    assert "| 10,000 (stretch 19,000) on an H100 with 16 cores |" in shown
    assert cases["alone: nvJPEG decode, GPU"]["absent"] == "needs a GPU"
    advice = f"`Loader(..., {cases['the best']['options']})`: {cases['the best']['images/s']:,.0f}"
    assert advice in shown
    assert "Not before these steps are complete: tests, decoders, pixels, lifetimes, reco" in shown


@pytest.mark.parametrize(
    ("rates", "advised"),
    [
        ({}, {"opener": "threads"}),
        ({"opener: graph": 11}, {"opener": "graph"}),
        ({"opener: threads 0.5, graph 0.5": 11}, {"opener": {"threads": 0.5, "graph": 0.5}}),
        ({"prefetch 1": 9}, {"opener": "threads"}),
        ({"prefetch 1": 11, "prefetch 3": 12}, {"opener": "threads", "prefetch": 3}),
    ],
)
def test_the_fastest_is_advised(
    tmp_path: Path, rates: dict[str, float], advised: dict[str, Any]
) -> None:
    rates = {"opener: threads": 10, "opener: graph": 9, **rates}
    known = {name: {"images/s": rate} for name, rate in rates.items()}
    assert best_options(replace(job(tmp_path), known=known)) == advised


def test_without_a_gpu_the_way_out_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "gpu_count", lambda: 0)
    with pytest.raises(SystemExit):
        program.main(["--out", str(tmp_path / "out")])
    assert "DALI sees no GPU; try the program with --device cpu" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_every_step_lists_its_cases(
    step: Step, device: str, tmp_path: Path, small_photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    module = import_module(f"benchmarks.gpu.{step.name}")
    assert module.__doc__
    cases = module.cases(job(tmp_path, small_photos, device=device))
    assert cases
    assert all(map(callable, cases.values()))
    assert step.patience <= step.limit


@pytest.mark.parametrize(
    ("step", "case"),
    [
        ("pixels", "transform 0: RandomResizedCrop(96)"),
        ("pixels", "graph: preset simclr, two views"),
        ("pixels", "graph: JPEG EXIF 6"),
        ("pixels", "graph: cut in half"),
        ("records", "graph: idle"),
        ("lifetimes", "JAX: threads"),
        ("lifetimes", "torch, another stream: graph"),
    ],
)
def test_cases_are_in_order(step: str, case: str, tmp_path: Path, small_photos: Path) -> None:
    module = import_module(f"benchmarks.gpu.{step}")
    facts = module.cases(job(tmp_path, small_photos))[case]()
    assert facts["ok"], facts
    assert "error" not in facts
    if "largest" in facts:
        with Image.open(tmp_path / "pixels.png") as drawn:
            assert drawn.format == "PNG"


def test_numbers_of_other_programs_become_rows() -> None:
    figures = {
        "kind": "text",
        "a": {"x": 1, "y": {"median": 2.5, "low": 1.0}, "deep": {"z": 3}},
        "b": {"2": {"median": {"x": 4}}},
    }
    wanted = {"a": {"x": 1, "y": 2.5}, "a, deep": {"z": 3}, "b, 2, median": {"x": 4}}
    assert dict(_rows(figures)) == wanted
