"""The comparison: contenders are checked, take their turns, and are told of."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from benchmarks import __main__ as comparison
from benchmarks.compare import cache, encoded, field, host, readme, report, run
from benchmarks.compare.data import list_images, prepare
from benchmarks.compare.gpu import GpuWatch
from benchmarks.compare.peer import Peer, with_workers
from benchmarks.compare.plot import plot
from benchmarks.compare.results import About, Comparison, Entry, Result, Round
from benchmarks.compare.rows import interval_note, rows
from benchmarks.compare.work import Work
from tests.support.media import jpeg, picture

KEPT = readme.PAGES[0].parent / "benchmarks/results/comparison-cpu-2-cores/comparison.json"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number in range(5):
        (folder / f"{number}.jpg").write_bytes(jpeg(picture(400, 600, number), quality=97))
    return folder


def test_pictures_are_brought_to_nabirds_form(photos: Path, tmp_path: Path) -> None:
    names = prepare(photos, tmp_path / "originals", "originals", 7)
    assert list_images(tmp_path / "originals") == names
    with Image.open(tmp_path / "originals" / names[0]) as image:
        assert 0.6e6 < image.width * image.height < 0.7e6
    prepare(photos, tmp_path / "cleaned", "cleaned", 2)
    with Image.open(tmp_path / "cleaned" / names[1]) as image:
        assert image.size == (269, 269)
    with pytest.raises(FileNotFoundError, match="there is no JPEG below"):
        prepare(tmp_path / "none", tmp_path / "out", "cleaned", 2)


def can_drop(folder: Path) -> bool:
    """Whether files there can leave the page cache: not where they lie in memory anyway."""
    probe = folder / "probe"
    probe.write_bytes(bytes(100_000))
    assert cache.cached_share([str(probe)]) == 1
    cache.drop([str(probe)])
    return cache.cached_share([str(probe)]) == 0


def test_files_leave_the_page_cache_and_come_back(tmp_path: Path) -> None:
    if not can_drop(tmp_path):
        pytest.skip("needs a temporary folder on a disk")
    files = [tmp_path / name for name in "ab"]
    for file in files:
        file.write_bytes(bytes(40_000))
    cache.drop([str(file) for file in files])
    files[0].read_bytes()
    assert cache.cached_share([str(file) for file in files]) == 0.5
    (tmp_path / "empty").touch()
    assert cache.cached_share([str(tmp_path / "empty")]) == 0


@pytest.mark.parametrize(
    ("preset", "names"),
    [
        ("train", ["gpufeed", "DALI tuned by hand", "limit: a batch that is ready"]),
        ("evaluate", ["gpufeed", "DALI tuned by hand"]),
    ],
)
def test_a_comparison_from_end_to_end(
    photos: Path, tmp_path: Path, preset: str, names: list[str]
) -> None:
    out = tmp_path / "report"
    caches = ["warm", "cold"] if can_drop(tmp_path) else ["warm"]
    options = ["--photos", photos, "--out", out, "--variants", "cleaned", "--batch-sizes", "4"]
    options += ["--pictures", "24", "--images", "8", "--rounds", "1", "--work", preset]
    options += [
        "--consumer",
        "500",
        *["--only", *names],
        *["--cold"][: len(caches) - 1],
    ]
    comparison.main([str(option) for option in options])
    found = json.loads((out / "comparison.json").read_text())
    (result,) = found["results"]
    assert [entry["name"] for entry in result["entries"]] == names
    assert result["work"]["preset"] == preset
    for entry in result["entries"]:
        assert entry["remarks"] == []
        (figures,) = entry["warm"]
        assert figures["images_per_second"] > 0
        assert 1 < figures["memory_mib"] < figures["peak_mib"]
        assert 0 <= figures["waited"] <= 1
        assert figures["gpu_share"] is None or figures["gpu_mib"] is not None
        assert len(entry["cold"]) == len(caches) - 1
        rate = entry["figures"]["warm"]["images_per_second"]
        assert rate == {
            "median": figures["images_per_second"],
            "low": figures["images_per_second"],
            "high": figures["images_per_second"],
            "coverage": 0.0,
            "rounds": 1,
        }
        assert list(entry["figures"]) == caches
    assert Comparison.load(out / "comparison.json").described() == found
    written = (out / "comparison.md").read_text()
    assert written.count("| **gpufeed** |") == len(caches)
    assert written.count("files not in the page cache") == len(caches) - 1
    assert f"cleaned, {preset}, 4 a batch, on cpu" in written
    page = (out / "comparison.html").read_text()
    assert page.count("<tr") == (len(names) + 1) * len(caches)
    assert "src='data:image/png;base64," in page
    with Image.open(out / "comparison.png") as plot:
        assert plot.format == "PNG"


def test_every_kind_of_work_is_reached_by_options(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, int, bool]] = []

    def noted(
        work: Work,
        *,
        rounds: int,
        batches: int,
        only: list[str],
        consumer: float | None,
        say: object,
    ) -> Result:
        assert consumer is None
        assert all(Path(file).is_file() for file in work.files)
        assert (rounds, batches, only) == (1, 2, ["x"])
        asked.append((work.name, work.preset, work.batch_size, work.cold))
        about = About(work.name, 8, work.batch_size, 224, "cpu", 2, batches, work.preset)
        return Result(about, [], [])

    monkeypatch.setattr(comparison, "compare", noted)
    options = ["--photos", str(photos), "--synthetic", "6", "--work", "train", "evaluate"]
    options += ["--batch-sizes", "4", "8", "--pictures", "8", "--images", "8", "--rounds", "1"]
    comparison.main([*options, "--cold", "--only", "x", "--out", str(tmp_path), "--device", "cpu"])
    names = ("originals", "cleaned", "synthetic originals", "synthetic cleaned")
    assert asked == [
        (name, preset, batch_size, True)
        for name in names
        for preset in ("train", "evaluate")
        for batch_size in (4, 8)
    ]
    titles = [str(result.work) for result in Comparison.load(tmp_path / "comparison.json").results]
    assert len(set(titles)) == len(asked)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give --photos DIR, --synthetic BIRDS, or both"),
        (["--photos", ".", "--pictures", "9"], "9 images fill no batch of 256; raise --pic"),
        (["--photos", ".", "--consumer", "nan"], "--consumer is nan; it must be a number above 0"),
        (["--synthetic", "0"], "argument --synthetic: 0 is less than 1"),
        (["--photos", ".", "--rounds", "x"], "argument --rounds: invalid integer value: 'x'"),
    ],
)
def test_wrong_options(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        comparison.main(options)
    assert message in capsys.readouterr().err


def test_who_does_something_else_is_remarked_on() -> None:
    labels = [*range(20), *range(20)]
    drawn = np.random.default_rng(0)
    means = drawn.normal(size=20).tolist() * 2
    work = Work("x", "/", tuple(map(str, range(20))), 4, 8, "cpu", 2)
    sound = {"labels": labels, "means": means}
    assert run._oddities(sound, work) == []
    assert run._oddities({**sound, "labels": [99] * 40}, work)[0] == "labels that no image has"
    few = run._oddities({**sound, "labels": [0, 1] * 20}, work)
    assert few[0] == "in two epochs 2 of 20 images came, one of them 20 times"
    many = Work("x", "/", tuple(map(str, range(150))), 4, 8, "cpu", 2)
    twice = [*range(150), *range(150)]
    scenes = drawn.normal(size=150)
    assert run._oddities({"labels": twice, "means": [*scenes, *scenes]}, many) == []
    apart = run._oddities({"labels": twice, "means": [*scenes, *drawn.normal(size=150)]}, many)
    assert apart[0].startswith("two views of an image are hardly related")
    entries = [Entry(str(i), True, "", mean=0.1, std=1.0) for i in range(3)]
    entries.append(Entry("odd", True, "", mean=0.4, std=1.0))
    run._compare_pixels(entries)
    assert [entry.remarks for entry in entries[:3]] == [[]] * 3
    assert entries[3].remarks == ["mean of its pixels 0.40, of the others 0.10"]


def test_evaluating_makes_the_same_of_a_picture_whoever_does_it() -> None:
    work = Work("x", "/", tuple(map(str, range(20))), 4, 8, "cpu", 2, "evaluate")
    means = np.random.default_rng(0).normal(size=20)
    sound = {"labels": [*range(20), *range(20)], "means": [*means, *means]}
    assert run._oddities(sound, work) == []
    apart = run._oddities({**sound, "means": [*means, *(means + 0.1)]}, work)
    assert apart == ["means of two views of an image are 0.100 apart"]
    entries = [Entry(name, True, "") for name in "abc"]
    views = {name: dict(enumerate(means)) for name in "abc"}
    run._compare_pictures(entries, views)
    views["b"] = {label: mean + 0.05 for label, mean in views["b"].items()}
    run._compare_pictures(entries, views)
    remarks = [entry.remarks for entry in entries]
    assert remarks == [[], ["means of its images 0.050 from those of the others"], []]


def test_the_centre_is_torchvisions() -> None:
    work = Work("x", "/", (), 4, 224, "cpu", 2, "evaluate")
    assert host.centre(work, 300, 401) == ((256, 342), (16, 59))
    assert host.centre(work, 401, 300) == ((342, 256), (59, 16))


def test_who_can_not_take_part_is_absent(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = Peer("lacking", lambda _: iter(()), needs=("no_such_module",))
    elsewhere = Peer("elsewhere", lambda _: iter(()), on=("cuda",))
    trains = Peer("trains", lambda _: iter(()), presets=("train",))
    monkeypatch.setattr(run, "all_peers", lambda: [lacking, elsewhere, trains])
    work = Work("x", str(photos), ("0.jpg",), 1, 8, "cpu", 1, "evaluate")
    result = run.compare(work, rounds=1, batches=1, say=lambda _: None)
    assert [(each.name, each.why) for each in result.absent] == [
        ("lacking", "no_such_module is not installed"),
        ("elsewhere", "it has no way to cpu"),
        ("trains", "it has no way to evaluate"),
    ]
    assert "Absent: lacking: no_such_module is not installed" in report.table(result)


def test_every_contender_has_a_name_of_its_own() -> None:
    names = [peer.name for peer in field.all_peers()]
    assert len(set(names)) == len(names)
    assert names[0] == "gpufeed"
    assert all(peer.equal or peer.does for peer in field.all_peers())
    limits = [name.startswith("limit") for name in names]
    assert limits == sorted(limits)


def test_what_needs_a_gpu_or_ffcv_is_listed_as_absent() -> None:
    work = Work("x", "/", ("a",), 1, 8, "cpu", 2)
    refused = {peer.name: peer.refusal(work) for peer in field.all_peers()}
    gpu = [name for name in refused if "GPU" in name or "nvJPEG" in name]
    assert len(gpu) == 7
    for name in gpu:
        assert refused[name] in ("it has no way to cpu", "torchvision is not installed")
    if importlib.util.find_spec("ffcv") is None:
        assert refused["FFCV, JPEG mode"] == "ffcv is not installed"


def test_loaders_with_workers_run_with_one_a_core_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def opened(work: Work, *, workers: int) -> Iterator[tuple[None, None]]:
        asked.append(workers)
        return iter(())

    work = Work("x", "/", ("a",), 1, 8, "cpu", 16)
    for cores, names in ((16, ["a, 1 worker", "a, 2 workers", "a, 16 workers"]), (2, None)):
        monkeypatch.setattr("benchmarks.compare.peer.available_threads", lambda cores=cores: cores)
        peers = with_workers("a", opened, 2, 1, needs=("os",))
        assert [peer.name for peer in peers] == (names or ["a, 1 worker", "a, 2 workers"])
        assert {peer.needs for peer in peers} == {("os",)}
        for peer in peers:
            peer.open(work)
    assert asked == [1, 2, 16, 1, 2]


def test_encoded_batches_are_read_in_order(photos: Path) -> None:
    files = tuple(list_images(photos))
    work = Work("x", str(photos), files, 2, 8, "cpu", 2)
    batches = encoded.read_batches(work)
    orders = encoded.places(work)
    for _ in range(7):
        contents, batch = next(batches)
        assert batch.tolist() == next(orders).tolist()
        assert contents == [(photos / files[place]).read_bytes() for place in batch]
    batches.close()


def rounds(*rates: float) -> list[Round]:
    return [Round(rate, 1000 / rate, 0.5, 100.0) for rate in rates]


def test_ratios_are_taken_round_by_round() -> None:
    """A machine that is slow for a while must not show as a difference."""
    ours = Entry("gpufeed", True, "", warm=rounds(100, 200, 50, 80, 120))
    other = Entry("other", True, "", warm=rounds(50, 100, 25, 40, 30))
    about = About("x", 8, 4, 224, "cpu", 2, 2)
    result = Result(about, [other, ours], [])
    first, second = rows(result)
    assert (first.name, second.name) == ("gpufeed", "other")
    assert second.ratio is not None
    assert (second.ratio.median, second.ratio.low, second.ratio.high) == (0.5, 0.25, 0.5)
    assert (second.rate.median, second.rate.low, second.rate.high) == (40, 25, 100)
    written = report.table(result)
    assert "| 40 (25 to 100) | 0.50 (0.25 to 0.50) |" in written
    assert (
        "medians of 5 rounds in turns, in brackets their interval (by order alone, 94 %" in written
    )
    assert interval_note(Result(about, [], [])) == "none ran"


def test_rounds_too_short_for_the_clock_can_be_drawn() -> None:
    """Whose CPU time is 0 for all."""
    entries = [Entry(name, True, "", warm=[Round(9.0, 0.0, 0.0, 1.0)]) for name in "ab"]
    drawn = plot([Result(About("x", 8, 4, 224, "cpu", 2, 2), entries, [])])
    with Image.open(io.BytesIO(drawn)) as image:
        assert image.format == "PNG"


class _Nvml(ModuleType):
    """A GPU's figures, as NVML gives them."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.used = 100 * 2**20

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(used=self.used + handle)

    def nvmlDeviceGetUtilizationRates(self, _: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(gpu=40)

    def nvmlDeviceGetJpgUtilization(self, _: int) -> tuple[int, int]:  # noqa: N802
        raise self.NVMLError


def test_what_a_gpu_does_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = {"gpu_share": None, "jpeg_share": None, "gpu_mib": None}
    nvml = _Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    watch = GpuWatch("cuda")
    assert watch.figures == unknown
    with watch.looking():
        nvml.used += 30 * 2**20
    assert watch.figures == {"gpu_share": 0.4, "jpeg_share": None, "gpu_mib": 30}
    with GpuWatch("cpu").looking():
        assert GpuWatch("cpu").figures == unknown
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert GpuWatch("cuda").figures == unknown


def test_figures_that_were_not_taken_have_no_column() -> None:
    about = About("x", 8, 4, 224, "cuda", 2, 2, "train", 400.0)
    ours = Entry("gpufeed", True, "", warm=rounds(100, 200))
    assert "GPU" not in report.table(Result(about, [ours], []))
    seen = [Round(100, 1, 1, 50, 60, 0.25, 0.5, None, 1000) for _ in range(2)]
    written = report.table(Result(about, [Entry("gpufeed", True, "", warm=seen)], []))
    heads = "memory, MiB | at most, MiB | waiting | GPU at work | GPU memory, MiB | first batch, s"
    assert f"| {heads} |" in written
    assert "| 50 | 60 | 25 % | 50 % | 1,000 | 0.0 |" in written
    assert "waiting at 400 images/s" in written


def test_the_kept_comparison_can_be_read() -> None:
    for result in Comparison.load(KEPT).results:
        assert result.ours is not None
        assert report.table(result) in KEPT.with_suffix(".md").read_text()


@pytest.mark.parametrize("page", readme.PAGES, ids=lambda page: page.stem)
def test_pages_tell_the_kept_comparison(page: Path) -> None:
    """Where this fails, run `python -m benchmarks.compare.readme`."""
    text = page.read_text()
    source = readme.source_of(text)
    assert readme.with_block(text, source, Comparison.load(page.parent / source)) == text


def test_the_readme_is_written_between_its_comments(tmp_path: Path) -> None:
    def result(name: str, batch_size: int, rate: float) -> Result:
        entries = [
            Entry("gpufeed", True, "", warm=rounds(*[rate] * 5)),
            Entry("Some, 1 worker", True, "", warm=rounds(*[rate / 4] * 5)),
            Entry("Some, 2 workers", True, "", warm=rounds(*[rate / 2] * 5)),
            Entry("Less", False, "half", warm=rounds(*[rate * 2] * 5)),
            Entry("limit: decode", False, "decode", warm=rounds(*[rate * 4] * 5)),
        ]
        return Result(About(name, 8, batch_size, 224, "cpu", 2, 2), entries, [])

    results = [result("originals", 256, 700), result("originals", 64, 500), result("x", 64, 40)]
    found = Comparison(Comparison.load(KEPT).machine, results)
    found.save(tmp_path / "found.json")
    target = tmp_path / "README.md"
    target.write_text(
        "# A\n\n<!-- comparison: old.json -->\nold\n<!-- end of the comparison -->\n\nB\n"
    )
    readme.main([str(tmp_path / "found.json"), "--readme", str(target)])
    written = target.read_text()
    assert written.startswith("# A\n\n<!-- comparison: found.json -->\n\nBeside 3 other loaders ")
    assert written.endswith("\n\n<!-- end of the comparison -->\n\nB\n")
    assert "batches of 64), in turns in one run on 2 cores of a CPU: " in written
    assert "| | NABirds-like originals | x |" in written
    ours = "| **gpufeed** | 1 (500 images/s) | 1 (40 images/s) |"
    assert ours in written
    assert "| Some, 2 workers | 0.50 (0.50 to 0.50) | 0.50 (0.50 to 0.50) |" in written
    assert "1 worker |" not in written
    assert "which is less work, reach: Less 2.00 and 2.00." in written
    assert "Parts of the work alone reach: decode 4.00 and 4.00." in written
    readme.main(["--readme", str(target)])
    assert target.read_text() == written
    target.write_text(written.replace("found.json -->", "found.json first 1 -->"))
    readme.main(["--readme", str(target)])
    few = target.read_text()
    assert "first 1 -->\n\nBeside 3 other loaders " in few
    assert few.endswith(f"{ours}\n\n<!-- end of the comparison -->\n\nB\n")
    target.write_text("# A\n")
    with pytest.raises(ValueError, match="no place for the comparison; it goes between the lines"):
        readme.main(["--readme", str(target)])
    results[1].entries.pop(0)
    with pytest.raises(ValueError, match="gpufeed is not in the comparison on originals"):
        readme.block(found)


@pytest.mark.gpu
@pytest.mark.parametrize("preset", ["train", "evaluate"])
def test_contenders_on_a_gpu(photos: Path, tmp_path: Path, preset: str) -> None:
    """Not run on a GPU yet."""
    names = prepare(photos, tmp_path, "originals", 24)
    work = Work("x", str(tmp_path), tuple(names), 4, 224, "cuda", 2, preset)
    only = ["gpufeed", "DALI", "GPU", "nvJPEG", "limit: a batch"]
    result = run.compare(work, rounds=1, batches=2, only=only, say=print)
    ran = {entry.name: entry.remarks for entry in result.entries}
    assert {"gpufeed", "DALI tuned by hand", "limit: copy to the GPU from pinned memory"} <= set(
        ran
    )
    assert not any(ran.values())
    # Not every GPU has engines for JPEG, nor every torchvision a decoder.
    allowed = ("is not installed", "no way to", "not decoded that way", "Error")
    assert all(any(part in each.why for part in allowed) for each in result.absent)
