"""The law of resuming: stopped anywhere, gone on with elsewhere, exactly the rest comes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gpufeed import Manifest
from tests.support import resumable
from tests.support.feed_a_shard import save_set
from tests.support.resumable import (
    GLOBAL_BATCH,
    PRESETS,
    SAMPLERS,
    Case,
    rest,
    save_cases,
    stopped,
    whole,
)

CASES = st.builds(
    Case,
    sampler=st.sampled_from(sorted(SAMPLERS)),
    preset=st.sampled_from(sorted(PRESETS)),
    framework=st.sampled_from(["numpy", "torch", "jax"]),
    last_batch=st.sampled_from(["drop", "pad", "partial"]),
    seed=st.integers(0, 2**64 - 1),
    stop=st.integers(0, 8),
    threads=st.integers(1, 3),
    prefetch=st.integers(1, 4),
    world=st.sampled_from([1, 2, 3, 4]),
)
QUICK = CASES.filter(lambda case: not case.preset.startswith("course"))


def check(found: dict[int, list[resumable.Row]], manifest: Manifest, case: Case) -> None:
    expected = {step: rows for step, rows in whole(manifest, case).items() if step >= case.stop}
    assert list(found) == list(expected), case
    for step, rows in expected.items():
        assert found[step] == rows, (case, step)


@settings(max_examples=5)
@given(QUICK)
def test_a_new_loader_goes_on_with_the_rest(pictures: Manifest, case: Case) -> None:
    check(rest(pictures, stopped(pictures, case)), pictures, case)


def test_a_new_process_goes_on_with_the_rest(pictures: Manifest, tmp_path: Path) -> None:
    """Every sampler, with the endings, presets and worlds in turn.

    test_checkpoints.py has the frameworks, which take longer to import than all that is done here.
    """
    usual, dear = ("train", "evaluate"), ("course_train", "course_evaluate")
    cases = [
        Case(
            sampler=sampler,
            preset=(usual if number % 5 else dear)[number % 2],
            framework="numpy",
            last_batch=("drop", "pad", "partial")[(number // 3 + number) % 3],
            seed=number * 2**58 + 7,
            stop=1 + number % 7,
            threads=1 + number % 3,
            prefetch=1 + number % 4,
            world=1 + (number + 1) % 4 if number % 5 else 1,
        )
        for number, sampler in enumerate(sorted(SAMPLERS))
    ]
    assert {case.preset for case in cases} == PRESETS.keys()
    assert len({(case.preset, case.last_batch, case.world) for case in cases}) > 6
    save_set(pictures, tmp_path)
    cases = [stopped(pictures, case) for case in cases]
    save_cases(cases, tmp_path / "cases.json")
    command = [sys.executable, "-m", resumable.__name__, tmp_path, tmp_path / "cases.json"]
    ran = subprocess.run(
        [*map(str, command), str(tmp_path / "out.json")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    for case, steps in zip(cases, found, strict=True):
        check({step: [tuple(row) for row in rows] for step, rows in steps}, pictures, case)


def test_the_cases_stop_everywhere(pictures: Manifest) -> None:
    """Within the first epoch, at its end, and in the second: or the law would prove less."""
    for sampler in SAMPLERS.values():
        size = sampler(pictures, 0).epoch_size
        assert 2 <= size // GLOBAL_BATCH <= 7
