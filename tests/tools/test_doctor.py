"""`gpufeed doctor`: the bound is the smallest ceiling, gains follow from the model, and pages."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed import ConfigError, Loader, Manifest, ManifestError, Stats, cli, read_folder
from gpufeed._util.spans import at_work
from gpufeed.feed.report import report_of
from gpufeed.live.words import limit
from gpufeed.source import Encoded, MemorySource
from gpufeed.source.threads import Threaded
from gpufeed.tools.doctor import run
from gpufeed.tools.doctor.diagnosis import Advice, Diagnosis, Verified
from gpufeed.tools.doctor.model import Costs, Setting, bound_of, ceilings, gain
from gpufeed.tools.doctor.page import make_page
from gpufeed.tools.doctor.storage import Storage, measure_storage
from gpufeed.tools.median import median_of
from tests.support.media import jpeg, picture

seconds = st.floats(1e-6, 1.0)
costs = st.builds(Costs, *[seconds] * 7)
settings = st.builds(
    Setting, st.integers(1, 64), st.integers(1, 64), st.integers(1, 512), st.none() | seconds
)


@given(st.lists(costs, min_size=1, max_size=5), settings)
def test_the_bound_is_the_smallest_ceiling(rounds: list[Costs], setting: Setting) -> None:
    bound = bound_of(rounds, setting)
    assert bound.rate.median == min(each.median for each in bound.ceilings.values())
    assert ("consumer" in bound.ceilings) == (setting.step is not None)
    assert bound.name not in bound.near


@given(costs, settings, seconds)
def test_gains_follow_from_the_costs(before: Costs, setting: Setting, fetch: float) -> None:
    def rate(each: Costs) -> float:
        return min(ceilings(each, setting).values())

    assert gain([before], setting, [before], setting).median == 1
    cheaper = replace(before, open=before.open / 2, run=before.run / 2)
    found = gain([before], setting, [cheaper], setting).median
    assert found == pytest.approx(rate(cheaper) / rate(before))
    # Twice as fast in some parts is never slower, and at most twice as fast in all.
    assert 1 <= found <= 2 + 1e-9
    tier = replace(before, fetch=fetch)
    found = gain([before], setting, [tier], setting).median
    assert found == pytest.approx(rate(tier) / rate(before))
    twice = replace(setting, threads=2 * setting.threads)
    more = gain([before], setting, [before], twice).median
    assert 1 <= more <= 2 + 1e-9
    if bound_of([before], setting).name != "threads":
        assert more == 1


# What a small photo costs on two cores, where nothing is wrong.
WELL = Costs(plan=3e-5, read=2e-5, open=4e-4, run=2e-4, hand_over=3e-6, fetch=3e-5)
TWO = Setting(cores=2, threads=3, batch_size=64)
PARTS = {"plan": 0.03, "read": 0.02, "decode": 0.21, "resize": 0.2, "output": 0.2}


def diagnosis(
    each: Costs = WELL, setting: Setting = TWO, parts: dict[str, float] = PARTS, **more: object
) -> Diagnosis:
    """What `doctor` returns after measuring these."""
    one = median_of([1.0, 2.0, 3.0])
    storage = Storage("FileSource", one, one, one, 2e4, cached=True, dropped=True, cpu_ms=0.02)
    rounds = [each, replace(each, open=each.open * 1.01), replace(each, open=each.open * 1.02)]
    found = Diagnosis(
        images=1000,
        tried=192,
        bad=0,
        device="cpu",
        setting=setting,
        bound=bound_of(rounds, setting),
        cpu_ms={name: median_of([value]) for name, value in parts.items()},
        storage=storage,
        advice=[],
        verified=None,
        fed=one,
        waiting=0.5,
        free=1.5,
    )
    return replace(found, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "culprit", "said"),
    [
        (diagnosis(), "cpu: decode", "Nothing stands out. 2 cores can give at most"),
        (diagnosis(parts={**PARTS, "AugMix": 3.0}), "cpu: AugMix", "AugMix takes 82 % of their"),
        (
            diagnosis(parts={**PARTS, "plan": 1.0}),
            "cpu: work for each file",
            "work for each file takes 63 %",
        ),
        (diagnosis(replace(WELL, fetch=2e-3)), "storage", "The storage bounds the run: it gives"),
        (diagnosis(replace(WELL, plan=2e-3)), "planning", "Planning bounds the run: one thread"),
        (
            diagnosis(setting=replace(TWO, threads=1)),
            "threads",
            "The number of threads bounds the run: 1 on 2 cores",
        ),
        (
            diagnosis(setting=replace(TWO, step=0.2)),
            "consumer",
            "The loader is not your problem: the training step takes 320 images/s",
        ),
        (diagnosis(replace(WELL, hand_over=2e-3)), "hand-over", "Handing batches over bounds"),
        (diagnosis(replace(WELL, gpu=1e-2)), "gpu", "The GPU's part of the loader bounds the run"),
    ],
)
def test_the_verdict_names_the_bound(found: Diagnosis, culprit: str, said: str) -> None:
    assert found.culprit == culprit
    assert said in found.verdict
    assert " ".join(str(found).split()).startswith(found.verdict)
    assert max(map(len, str(found).splitlines())) <= 80
    for name in ("storage", "planning", "cpu"):
        near = replace(found.bound, near=(name,))
        assert "is about the same" in replace(found, bound=near).verdict


ADVISED = diagnosis(
    advice=[Advice("prepare", "Prepare <them>.", median_of([2.0, 2.1, 2.2]))],
    verified=Verified("prepare", *[median_of([each, each + 0.2]) for each in (2, 1, 1.9)]),
    bad=3,
)


def test_a_prediction_that_missed_is_said() -> None:
    text = str(ADVISED)
    for line in (
        "  1. Prepare <them>. Expected: 2.10 (2.00 to 2.20) times.",
        "  images/s measured         1.10 (1.00 to 1.20)",
        "The prediction missed.",
        "Other processes left 1.5 of 2 cores",
        "3 images cannot be read or decoded",
    ):
        assert line in text
    assert ADVISED.verified is not None
    right = replace(ADVISED.verified, measured=median_of([2.1]))
    assert "missed" not in str(replace(ADVISED, verified=right))


def test_figures_in_json() -> None:
    kept = json.loads(ADVISED.to_json())
    assert kept["verdict"] == ADVISED.verdict
    assert kept["culprit"] == "cpu: decode"
    assert kept["bound"]["ceilings"]["cpu"]["median"] == ADVISED.bound.rate.median
    assert kept["advice"][0]["gain"]["median"] == 2.1
    assert Setting(**kept["setting"]) == ADVISED.setting


def test_a_page_needs_nothing_else() -> None:
    used: list[tuple[str, dict[str, str | None]]] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            used.append((tag, dict(attrs)))

    page = make_page(ADVISED, "a <b> & c")
    Parser().feed(page)
    assert not {tag for tag, _ in used} & {"script", "link", "img", "iframe", "b"}
    assert not any({"src", "href"} & attributes.keys() for _, attributes in used)
    assert "url(" not in page
    assert "@import" not in page
    assert "a &lt;b&gt; &amp; c" in page
    assert "Prepare &lt;them&gt;." in page
    widths = [each["style"] for tag, each in used if each.get("class") == "bar"]
    assert len(widths) == 3 + len(ADVISED.bound.ceilings) + len(ADVISED.cpu_ms) + 2
    for section in ADVISED.sections:
        assert all(html.escape(each) in page for each in (section.title, *section.notes))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Nine images in a class folder, of which one is cut off."""
    inside = tmp_path / "photos" / "owl"
    inside.mkdir(parents=True)
    for number in range(9):
        (inside / f"{number}.jpg").write_bytes(jpeg(picture(400, 500 + number, number)))
    whole = (inside / "0.jpg").read_bytes()
    (inside / "0.jpg").write_bytes(whole[: len(whole) // 2])
    return inside.parent


def test_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = partial(run.doctor, rounds=1, seconds=0.01)
    monkeypatch.setattr(run, "doctor", quick)
    figures, page = folder.parent / "f.json", folder.parent / "p.html"
    options = ["--size", "32", "--batch-size", "4", "--device", "cpu", "--step-ms", "1"]
    written = ["--json", str(figures), "--html", str(page)]
    assert cli.main(["doctor", str(folder), *options, *written]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    kept = json.loads(figures.read_text())
    assert kept["verdict"] in " ".join(printed.out.split())
    assert kept["bad"] == 1
    assert kept["setting"]["step"] == 0.001
    assert [*kept["cpu_ms"]] == ["plan", "read", "decode", "resize", "output", "hand-over"]
    assert {"storage", "planning"} & kept["bound"]["ceilings"].keys()
    assert kept["storage"]["dropped"]
    # Whatever bounds the run, a change that is advised was applied.
    assert (kept["verified"] is None) == (kept["advice"] == [])
    assert kept["verdict"] in page.read_text().replace("&#x27;", "'").replace("&quot;", '"')


def test_what_it_does_not_take(folder: Path) -> None:
    manifest = read_folder(folder)
    with pytest.raises(ConfigError, match="sampler is set, but doctor feeds a sample"):
        run.doctor(manifest, sampler=[1, 2])
    with pytest.raises(ConfigError, match="step is -1; it must be above 0"):
        run.doctor(manifest, step=-1)
    (folder / "owl" / "1.jpg").write_bytes((folder / "owl" / "0.jpg").read_bytes())
    with pytest.raises(ManifestError, match="none of 1 images that were tried can be decoded"):
        run.doctor(manifest.take([0]))


def test_every_image_is_read_at_each_pass() -> None:
    read: list[int] = []

    class Noting(MemorySource):
        def read(self, keys: np.typing.NDArray[np.int64]) -> list[Encoded]:
            read.extend(keys.tolist())
            return super().read(keys)

    source = Noting([bytes(10_000 * (number + 1)) for number in range(8)])
    found, contents = measure_storage(source, [np.arange(4), np.arange(4, 8)], 8, seconds=1e9)
    assert sorted(read) == sorted([*range(8)] * 3)  # first, again, and one by one
    assert [len(each) for each in contents if not isinstance(each, OSError)] == [
        10_000 * (i + 1) for i in range(8)
    ]
    assert found.mean_bytes == 45_000
    assert not found.dropped
    assert found.fetch == 1 / found.again.median


@pytest.mark.parametrize(
    ("stages", "waited", "readers", "bound"),
    [
        ({"read": 9.0, "open": 5.0}, 8.0, 1, "read"),
        ({"read": 9.0, "open": 5.0}, 8.0, 4, "open"),
        ({"open": 12.0, "run": 3.0}, 8.0, 1, "open"),
        ({"run": 9.0, "open": 8.0}, 8.0, 1, "run"),
        ({"read": 9.0, "open": 5.0}, 0.9, 1, "consumer"),
    ],
)
def test_a_running_loader_says_what_bounds_it(
    stages: dict[str, float], waited: float, readers: int, bound: str
) -> None:
    every = dict.fromkeys(Stats(0, 0, 0.0, 0.0).stages, 0.1) | stages
    report = report_of(Stats(10, 640, 10.0, waited, stages=every), readers)
    assert report.bound == bound
    # `gpufeed top` says the same.
    top = limit(waited / 10.0, at_work(every, readers))
    assert top.startswith("the consumer") if bound == "consumer" else top.endswith(bound)
    assert all(0 <= share <= 1 for share in report.busy.values())
    assert "64 images/s" in str(report)
    assert ("not the limit" in str(report)) == (bound == "consumer")


def test_the_report_of_a_loader(pictures: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Threaded, "batches", 4)
    with Loader(pictures, batch_size=4, device="cpu") as loader:
        assert str(loader.report()) == "No batch has been handed out yet."
        list(loader)
    report = loader.report()  # now that nothing is read ahead any more
    read = report.stats.stages["read"] / 4  # readers
    assert report.busy["read"] == pytest.approx(min(read / report.stats.seconds, 1))
    assert report.bound in {*report.busy, "consumer"}
    assert report.busy["open"] > 0
    assert "gpufeed doctor DATA" in str(report)
