"""The comparison: contenders are checked, take their turns, and are told of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks import __main__ as comparison
from benchmarks.compare import field, readme, report, run
from benchmarks.compare.data import list_pictures, prepare
from benchmarks.compare.peer import Peer
from benchmarks.compare.results import About, Comparison, Entry, Result, Round
from benchmarks.compare.rows import interval_note, rows
from benchmarks.compare.work import Work
from media import jpeg, picture

KEPT = readme.TOP / "benchmarks/results/comparison-cpu-2-cores/comparison.json"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number in range(5):
        (folder / f"{number}.jpg").write_bytes(jpeg(picture(400, 600, number), quality=97))
    return folder


def test_pictures_are_brought_to_nabirds_form(photos: Path, tmp_path: Path) -> None:
    names = prepare(photos, tmp_path / "originals", "originals", 7)
    assert list_pictures(tmp_path / "originals") == names
    with Image.open(tmp_path / "originals" / names[0]) as image:
        assert 0.6e6 < image.width * image.height < 0.7e6
    prepare(photos, tmp_path / "cleaned", "cleaned", 2)
    with Image.open(tmp_path / "cleaned" / names[1]) as image:
        assert image.size == (269, 269)
    with pytest.raises(FileNotFoundError, match="there is no JPEG below"):
        prepare(tmp_path / "none", tmp_path / "out", "cleaned", 2)


def test_a_comparison_from_end_to_end(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    options = ["--photos", photos, "--out", out, "--variants", "cleaned", "--batch-sizes", "4"]
    options += ["--pictures", "24", "--images", "8", "--rounds", "1", "--cold"]
    options += ["--only", "gpufeed", "tuned", "limit: a batch"]
    comparison.main([str(option) for option in options])
    found = json.loads((out / "comparison.json").read_text())
    (result,) = found["results"]
    assert [entry["name"] for entry in result["entries"]] == [
        "gpufeed",
        "DALI tuned by hand",
        "limit: a batch that is ready",
    ]
    for entry in result["entries"]:
        assert entry["remarks"] == []
        (figures,) = entry["warm"]
        assert figures["images_per_second"] > 0
        assert figures["memory_mib"] > 1
        assert len(entry["cold"]) == 1
        rate = entry["figures"]["warm"]["images_per_second"]
        assert rate == {
            "median": figures["images_per_second"],
            "low": figures["images_per_second"],
            "high": figures["images_per_second"],
            "coverage": 0.0,
            "rounds": 1,
        }
        assert set(entry["figures"]) == {"warm", "cold"}
    assert Comparison.load(out / "comparison.json").described() == found
    written = (out / "comparison.md").read_text()
    assert written.count("| **gpufeed** |") == 2
    assert written.count("files not in the page cache") == 1
    page = (out / "comparison.html").read_text()
    assert page.count("<tr") == 8
    assert "src='data:image/png;base64," in page
    with Image.open(out / "comparison.png") as plot:
        assert plot.format == "PNG"


def test_who_does_something_else_is_remarked_on() -> None:
    labels = [*range(20), *range(20)]
    drawn = np.random.default_rng(0)
    means = drawn.normal(size=20).tolist() * 2
    work = Work("x", "/", tuple(map(str, range(20))), 4, 8, "cpu", 2)
    sound = {"labels": labels, "means": means}
    assert run._oddities(sound, work) == []
    assert run._oddities({**sound, "labels": [99] * 40}, work)[0] == "labels that no picture has"
    few = run._oddities({**sound, "labels": [0, 1] * 20}, work)
    assert few[0] == "in two epochs 2 of 20 pictures came, one of them 20 times"
    many = Work("x", "/", tuple(map(str, range(150))), 4, 8, "cpu", 2)
    twice = [*range(150), *range(150)]
    scenes = drawn.normal(size=150)
    assert run._oddities({"labels": twice, "means": [*scenes, *scenes]}, many) == []
    apart = run._oddities({"labels": twice, "means": [*scenes, *drawn.normal(size=150)]}, many)
    assert apart[0].startswith("two views of a picture are hardly related")
    entries = [Entry(str(i), True, "", mean=0.1, std=1.0) for i in range(3)]
    entries.append(Entry("odd", True, "", mean=0.4, std=1.0))
    run._compare_pixels(entries)
    assert [entry.remarks for entry in entries[:3]] == [[]] * 3
    assert entries[3].remarks == ["mean of its pixels 0.40, of the others 0.10"]


def test_who_is_not_installed_is_absent(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = Peer("lacking", lambda _: iter(()), needs=("no_such_module",))
    elsewhere = Peer("elsewhere", lambda _: iter(()), on=("cuda",))
    monkeypatch.setattr(run, "all_peers", lambda: [lacking, elsewhere])
    work = Work("x", str(photos), ("0.jpg",), 1, 8, "cpu", 1)
    result = run.compare(work, rounds=1, batches=1, cold=False, say=lambda _: None)
    assert [(each.name, each.why) for each in result.absent] == [
        ("lacking", "no_such_module is not installed"),
        ("elsewhere", "it has no way to cpu"),
    ]
    assert "Absent: lacking: no_such_module is not installed" in report.table(result)


def test_every_contender_has_a_name_of_its_own() -> None:
    names = [peer.name for peer in field.all_peers()]
    assert len(set(names)) == len(names)
    assert names[0] == "gpufeed"
    assert all(peer.equal or peer.does for peer in field.all_peers())


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


def test_the_kept_comparison_can_be_read() -> None:
    for result in Comparison.load(KEPT).results:
        assert result.ours is not None
        assert report.table(result) in KEPT.with_suffix(".md").read_text()


def test_the_readme_tells_the_kept_comparison() -> None:
    """Where this fails, run `python -m benchmarks.compare.readme`."""
    text = (readme.TOP / "README.md").read_text()
    source = readme.source_of(text)
    assert readme.with_block(text, source, Comparison.load(readme.TOP / source)) == text


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
    assert "| **gpufeed** | 1 (500 images/s) | 1 (40 images/s) |" in written
    assert "| Some, 2 workers | 0.50 (0.50 to 0.50) | 0.50 (0.50 to 0.50) |" in written
    assert "1 worker |" not in written
    assert "which is less work, reach: Less 2.00 and 2.00." in written
    assert "Parts of the work alone reach: decode 4.00 and 4.00." in written
    readme.main(["--readme", str(target)])
    assert target.read_text() == written
    target.write_text("# A\n")
    with pytest.raises(ValueError, match="no place for the comparison; it goes between the lines"):
        readme.main(["--readme", str(target)])
    results[1].entries.pop(0)
    with pytest.raises(ValueError, match="gpufeed is not in the comparison on originals"):
        readme.block(found)
