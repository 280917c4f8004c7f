"""`python -m benchmarks.presets` runs, and its figures come back as they were kept."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from benchmarks.machine import Machine
from benchmarks.presets import __main__ as run
from benchmarks.presets import by_hand, by_torchvision
from benchmarks.presets.result import GPUFEED, Cost, Planning, Result, median_ratio
from gpufeed import presets
from tests.support.media import make_manifest


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("presets")
    make_manifest(folder, [(90, 120), (150, 100), (80, 80), (100, 140)])
    return folder


def test_it_runs(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept.json"
    options = ["--photos", str(photos), "--rounds", "1", "--batches", "1", "--batch-size", "4"]
    run.main([*options, "--only", "train", "--threads", "1", "--json", str(kept)])
    found = Result.load(kept)
    assert (found.images, found.batch_size, len(found.planning)) == (4, 4, 1)
    absent = importlib.util.find_spec("torchvision") is None
    wanted = {GPUFEED, run.BY_HAND} | (set() if absent else {run.TORCHVISION})
    assert {cost.contender for cost in found.costs} == wanted
    assert all(len(cost.cpu_ms) == 1 and cost.cpu_ms[0] > 0 for cost in found.costs)
    assert bool(found.absent) == absent
    printed = capsys.readouterr().out
    assert f"{run.table(found)}\n" in printed
    assert "| train | " in printed


def test_every_preset_can_be_planned() -> None:
    found = run.plans(1, presets.__all__, records=300)
    assert [each.preset for each in found] == presets.__all__
    assert all(each.records == 256 and each.cpu_ms[0] > 0 for each in found)


def test_contenders_are_named_after_presets() -> None:
    assert set(by_hand.PIPELINES) <= set(presets.__all__)
    assert set(by_torchvision.RECIPES) <= set(presets.__all__)
    assert {"train", "evaluate", "simclr"} <= set(by_hand.PIPELINES)


@pytest.mark.parametrize("preset", by_hand.PIPELINES)
def test_pipelines_by_hand_make_what_the_preset_makes(photos: Path, preset: str) -> None:
    files = [str(path) for path in sorted(photos.glob("*.jpg"))]
    found = next(by_hand.batches(preset, files, 4, 1))
    manifest = run.photos(photos)
    wanted = next(run.gpufeed_batches(manifest, preset, 4, 1))["image"]
    for ours, theirs in zip(wanted if isinstance(wanted, list) else [wanted], found, strict=False):
        made = np.stack([np.array(theirs.at(place)) for place in range(4)])
        assert (made.shape, made.dtype) == (ours.shape, ours.dtype)


def test_ratios_are_taken_round_by_round(tmp_path: Path) -> None:
    costs = [Cost("train", GPUFEED, [1.0, 4.0, 2.0]), Cost("train", run.BY_HAND, [2.0, 8.0, 4.0])]
    assert median_ratio(*costs).median == 0.5
    planning = [Planning("train", 256, [0.5, 0.7, 0.6])]
    result = Result(Machine.here(), 9, 3, costs, planning, {"torchvision": "not installed"})
    result.save(tmp_path / "a" / "b.json")
    assert Result.load(tmp_path / "a" / "b.json") == result
    assert run.table(result).endswith(
        "| train | 2.00 (1.00 to 4.00) | 0.50 (0.50 to 0.50) |  | 0.60 (0.50 to 0.70) |\n"
        "Absent: torchvision: not installed"
    )


def test_too_few_pictures(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.main(["--photos", str(photos), "--only", "train"])
    assert "4 images fill no batch of 32" in capsys.readouterr().err
