"""Training steps under several feeds: figures that follow from each other, and what is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from benchmarks import training
from benchmarks.compare.peer import Peer
from benchmarks.compare.work import Work
from benchmarks.step import feeds, models, report, trainee, turns
from benchmarks.step.outcome import Outcome, Setting
from benchmarks.step.utilisation import reader, sampled
from tests.support.media import jpeg, picture

STEPS, BATCH = 3, 4
LACKING = Peer("lacking", lambda _: iter(()), needs=("no_such_module",))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a run of gpufeed and the ceiling wrote; another feed could not run."""
    photos, out = tmp_path_factory.mktemp("photos"), tmp_path_factory.mktemp("out")
    for number in range(3):
        (photos / f"{number}.jpg").write_bytes(jpeg(picture(300, 400, number), quality=97))
    options = f"--photos {photos} --out {out} --device cpu --variant cleaned --pictures 8 "
    options += f"--batch-size {BATCH} --size 32 --steps {STEPS} --rounds 2 "
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "choose", lambda *given: [*feeds.choose(*given), LACKING])
        training.main([*options.split(), "--only", "gpufeed"])
    return out


def test_figures_follow_from_each_other(run: Path) -> None:
    found = json.loads((run / "training.json").read_text())
    names = ["synthetic", "gpufeed"]
    assert [fed["name"] for fed in found["feeds"]] == names
    assert [row["name"] for row in found["rows"]] == names
    assert found["absent"] == [{"name": "lacking", "why": "no_such_module is not installed"}]
    rates = []
    for fed, row in zip(found["feeds"], found["rows"], strict=True):
        assert len(fed["rounds"]) == 2
        rates.append([])
        waiting = []
        for turn in fed["rounds"]:
            assert turn["images"] == STEPS * BATCH
            assert len(turn["step_s"]) == len(turn["waited_s"]) == len(turn["losses"]) == STEPS
            pairs = zip(turn["waited_s"], turn["step_s"], strict=True)
            assert all(0 <= waited < step for waited, step in pairs)
            assert turn["cpu_ms"] > 0
            assert turn["utilisation"] is None
            rates[-1].append(turn["images"] / sum(turn["step_s"]))
            waiting.append(sum(turn["waited_s"]) / sum(turn["step_s"]))
        ratios = [rate / top for rate, top in zip(rates[-1], rates[0], strict=True)]
        for figure, values in (
            ("images_per_second", rates[-1]),
            ("over_ceiling", ratios),
            ("waiting_share", waiting),
        ):
            middle = {"median": sum(values) / 2, "least": min(values), "most": max(values)}
            assert row[figure] == pytest.approx(middle)
    assert found["rows"][0]["over_ceiling"] == {"median": 1, "least": 1, "most": 1}


def test_the_report_is_made_from_the_json_alone(run: Path, tmp_path: Path) -> None:
    outcome = Outcome.load(run / "training.json")
    outcome.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (run / "training.json").read_bytes()
    with Image.open(run / "training.png") as drawn:
        assert drawn.format == "PNG"
    written = io.StringIO()
    Console(file=written, width=160).print(report.table(outcome))
    assert "gpufeed" in written.getvalue()
    assert "absent: lacking: no_such_module is not installed" in written.getvalue()
    # As it will be on a GPU: with a line over each timeline.
    for fed in outcome.feeds:
        for turn in fed.rounds:
            object.__setattr__(turn, "utilisation", [(0.0, 0.5), (0.01, 1.0)])
    report.plot(outcome, tmp_path / "busy.png")
    assert [row.utilisation and row.utilisation.median for row in outcome.rows()] == [0.75] * 2


def test_names_that_no_feed_has_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for given, said in (
        (["--only", "gpufeed", "nonsense"], "no feed has 'nonsense' in its name; there are: gpuf"),
        (["--steps", "0"], "--steps is 0; give 1 or more"),
        (["--batch-size", "1"], "--batch-size is 1; give 2 or more"),
        (["--pictures", "3", "--batch-size", "4"], "--pictures is 3, less than one batch of 4"),
    ):
        with pytest.raises(SystemExit):
            training.main(["--photos", str(tmp_path), "--out", str(tmp_path / "out"), *given])
        assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_feeds_are_the_ceiling_gpufeed_and_loaders_that_feed_pictures() -> None:
    names = [feed.name for feed in feeds.all_feeds()]
    assert names[:2] == ["synthetic", "gpufeed"]
    assert len(set(names)) == len(names)
    assert not any("limit" in name for name in names)
    assert [feed.name for feed in feeds.choose([], 2)] == [
        "synthetic",
        "gpufeed",
        "torch DataLoader, Pillow, 2 workers",
        "torch DataLoader, torchvision v2, 2 workers",
    ]
    assert [feed.name for feed in feeds.choose(["TUNED"], 2)] == ["synthetic", "DALI tuned by hand"]


SOUND: dict[str, Any] = {
    "images": 8,
    "cpu_ms": 1.0,
    "losses": [2.0, 1.0],
    "step_s": [0.2, 0.2],
    "waited_s": [0.0, 0.1],
    "utilisation": None,
}


def test_turns_that_can_not_be_compared_are_errors() -> None:
    turn = turns.checked(SOUND, "x", 1, 8)
    assert (turn.rate, turn.waiting, turn.busy) == (20, 0.25, None)
    for wrong, said in (
        (
            {"error": "OSError: gone"},
            "x failed in round 1: OSError: gone; name the others by --only",
        ),
        ({**SOUND, "images": 7}, "x fed 7 images in round 1, not 8 as the others did"),
        ({**SOUND, "losses": [2.0, float("nan")]}, "x: the loss is nan at step 1 of round 1"),
    ):
        with pytest.raises(RuntimeError, match=said):
            turns.checked(wrong, "x", 1, 8)


def test_without_the_ceiling_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    work = Work("x", str(tmp_path), ("0.jpg",), 2, 32, "cpu", 1)
    with pytest.raises(RuntimeError, match="no model could be made to train on cpu: no_such_mod"):
        turns.train(
            work,
            [LACKING],
            model="small",
            rounds=1,
            steps=1,
            say=lambda _: None,
            advance=lambda _: None,
        )


def test_arrays_of_all_libraries_become_tensors() -> None:
    host = torch.device("cpu")
    for values in (np.arange(3), torch.arange(3), jax.numpy.arange(3)):
        assert trainee._tensor(values, host).tolist() == [0, 1, 2]


def test_models_have_as_many_weights_as_everywhere() -> None:
    with torch.device("meta"):  # shapes alone
        for name, small, count in (
            ("resnet50", "small", 25_557_032),
            ("vit_s", "vit_small", 22_050_664),
        ):
            weights = models.make(name, 224).parameters()
            assert sum(each.numel() for each in weights) == count
            scores = models.make(small, 32)(torch.zeros(2, 3, 32, 32))
            assert scores.shape == (2, models.CLASSES)


class FakeNvml:
    """Answers as NVIDIA's library does: 0 is success."""

    def __init__(self, percent: int, failing: str = "") -> None:
        self.percent, self.failing, self.names = percent, failing, []

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return int(self.failing == "init")

    def nvmlDeviceGetHandleByUUID(self, name: bytes, _handle: Any) -> int:  # noqa: N802
        self.names.append(name)
        return int(self.failing == "handle")

    def nvmlDeviceGetUtilizationRates(self, _handle: Any, rates: Any) -> int:  # noqa: N802
        rates._obj.gpu = self.percent
        return int(self.failing == "rates")


def test_the_gpu_is_read_where_its_library_answers() -> None:
    library = FakeNvml(62)
    read = reader("0a-1b", library)
    assert read is not None
    assert read() == 0.62
    assert library.names == [b"GPU-0a-1b"]
    for failing in ("init", "handle", "rates"):
        assert reader("0a-1b", FakeNvml(62, failing)) is None
    with sampled(None) as none:
        assert none is None
    with sampled(read) as samples:
        torch.zeros(1)
        while not samples:
            pass
    assert samples[0][1] == 0.62


def test_the_median_round_is_one_of_the_rounds(run: Path) -> None:
    outcome = Outcome.load(run / "training.json")
    assert isinstance(outcome.setting, Setting)
    for fed in outcome.feeds:
        assert fed.typical.rate == min(each.rate for each in fed.rounds)
