"""The shuffle report: its figures against brute force, and orders that it must call bad."""

from __future__ import annotations

import itertools
import math
import re
import shutil
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gpufeed import ConfigError, cli
from gpufeed.order import permutation
from gpufeed.tools import shuffle, shuffle_report
from gpufeed.tools.shuffle_report import Report, SamplerKind, examine, notes_of, rows_of, verdict_of

# As many as NABirds has for training, of as many species.
RECORDS, CLASSES = 23_929, 404


def odd(report: Report, name: str) -> set[str]:
    """The figures of a source that are marked."""
    place = [found.name for found in report.found].index(name)
    return {row for row, _, _, cells in rows_of(report) if cells[place].odd}


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grain gives one record at a time: fewer epochs are soon looked at."""
    monkeypatch.setattr(shuffle_report, "_EPOCHS", 200)
    monkeypatch.setattr(shuffle_report, "_SHUFFLES", 40)


@pytest.fixture
def no_grain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grain", None)


@given(st.lists(st.integers(0, 50), min_size=12, max_size=40).filter(lambda k: len(set(k)) > 1))
def test_autocorrelation_is_its_sum(keys: list[int]) -> None:
    mean = statistics.fmean(keys)
    for lag, found in enumerate(shuffle.autocorrelation(np.array(keys)), start=1):
        products = [(a - mean) * (b - mean) for a, b in zip(keys, keys[lag:], strict=False)]
        assert found == pytest.approx(statistics.fmean(products) / statistics.pvariance(keys))


@given(st.lists(st.integers(0, 9), min_size=2, max_size=40))
def test_the_commonest_difference(keys: list[int]) -> None:
    counted = Counter(later - key for key, later in itertools.pairwise(keys))
    difference, count = shuffle.commonest_difference(np.array(keys))
    assert count == max(counted.values()) == counted[difference]
    assert difference == min(each for each in counted if counted[each] == count)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(1, 12))
def test_classes_are_counted_batch_by_batch(labels: list[int], batch_size: int) -> None:
    batch_size = min(batch_size, len(labels))
    distinct, largest = shuffle.classes_per_batch(np.array(labels), batch_size)
    batches = [
        labels[start : start + batch_size]
        for start in range(0, len(labels) - batch_size + 1, batch_size)
    ]
    assert distinct.tolist() == [len(set(batch)) for batch in batches]
    assert largest.tolist() == [max(Counter(batch).values()) for batch in batches]


@given(st.integers(20, 300), st.integers(2, 90), st.integers(0, 99))
def test_chi_square_is_its_sum(draws: int, size: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(size, size=(draws, 3))
    found = shuffle.count_parts(values, size)
    parts = min(50, size, draws // 5)
    lengths = Counter(value * parts // size for value in range(size))
    total = 0.0
    for column in range(3):
        counted = Counter(value * parts // size for value in values[:, column].tolist())
        for part in range(parts):
            expected = draws * lengths[part] / size
            total += (counted[part] - expected) ** 2 / expected
    freedom = 3 * (parts - 1)
    assert found.z == pytest.approx((total - freedom) / math.sqrt(2 * freedom))
    weights = [lengths[part] / size for part in range(parts)]
    assert np.average(found.shares, weights=weights) == pytest.approx(1)


def test_figures_of_perfect_shuffles_keep_to_what_is_expected() -> None:
    drawn = np.random.default_rng(0)
    found = [shuffle.count_parts(drawn.integers(999, size=(500, 20)), 999) for _ in range(200)]
    z = [each.z for each in found]
    assert abs(statistics.fmean(z)) < 0.25
    assert 0.85 < statistics.stdev(z) < 1.15
    error = np.std([each.shares for each in found])
    assert error == pytest.approx(found[0].error, rel=0.1)


def test_a_plain_shuffle_is_as_good_as_numpys_and_grains_faults_are_found() -> None:
    """Grain's epoch 1 of seed s is epoch 0 of seed s + 1, and its neighbours are correlated."""
    report = examine(np.arange(RECORDS) % CLASSES, progress=False)
    assert odd(report, "gpufeed") == odd(report, "numpy") == set()
    assert verdict_of(report) == ("This order is as random as a uniform shuffle, by all 9 figures.")
    assert {"Aliasing", "Autocorrelation", "Next epoch"} <= odd(report, "Grain")
    assert "Visits" not in odd(report, "Grain")
    ours, _, theirs = report.found
    first = permutation.permute(np.arange(RECORDS), RECORDS, permutation.Key(0, 0))
    assert ours.orders.first.tolist() == first.tolist()
    assert theirs.figures["aliasing"] == RECORDS
    assert report.expected["aliasing"][0] == pytest.approx(1, abs=0.7)


@pytest.fixture
def two_rounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Too few for a Feistel network."""
    monkeypatch.setattr(permutation, "_ROUNDS", 2)
    permutation._keys_of.cache_clear()
    yield
    permutation._keys_of.cache_clear()


@pytest.mark.usefixtures("two_rounds", "no_grain")
def test_a_weak_cipher_is_bad() -> None:
    report = examine(np.arange(RECORDS) % CLASSES, progress=False)
    assert {"Autocorrelation", "Commonest difference"} <= odd(report, "gpufeed")
    assert re.match(
        r"This order is not a uniform shuffle\. Where it differs: records that come soon after "
        r"each other are related \(autocorrelation 0\.\d{4}, a uniform shuffle's is 0\.0\d{3}\); ",
        verdict_of(report),
    )


@pytest.mark.usefixtures("no_grain")
@pytest.mark.parametrize(
    ("kind", "strange"),
    [
        ("weighted", {"Visits", "Classes in a batch", "Commonest class"}),
        ("balanced", {"Visits", "Classes in a batch", "Commonest class"}),
        (
            "repeated",
            {
                "Visits",
                "Classes in a batch",
                "Commonest class",
                "Autocorrelation",
                "Commonest difference",
            },
        ),
        (
            "sequential",
            {
                "Autocorrelation",
                "Commonest difference",
                "Records at a position",
                "Next epoch",
                "Next seed",
                "Aliasing",
            },
        ),
    ],
)
def test_other_samplers_differ_where_they_are_meant_to(
    kind: SamplerKind, strange: set[str]
) -> None:
    drawn = np.random.default_rng(2)
    labels = drawn.integers(1, 41, size=5_000) * drawn.integers(1, 3, size=5_000)
    report = examine(labels, kind, progress=False)
    assert odd(report, "gpufeed") == strange
    verdict = verdict_of(report)
    assert verdict.startswith("This order is not a uniform shuffle; it ")
    assert {
        name for name, *_ in rows_of(report) if f"({name[0].lower()}{name[1:]} " in verdict
    } == (strange)
    if kind == "balanced":
        assert report.found[0].figures["classes"] == 16
        assert report.found[0].figures["share"] == 4 / 64


def test_long_epochs_are_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = examine(np.arange(5_000) % 10, progress=False)
    monkeypatch.setattr(shuffle_report, "_MAX_POSITIONS", 1_000)
    report = examine(np.arange(5_000) % 10, progress=False)
    for part, all_of_it in zip(report.found, whole.found, strict=True):
        assert part.orders.first.tolist() == all_of_it.orders.first[:1_000].tolist()
    assert odd(report, "gpufeed") == odd(report, "numpy") == set()
    assert "Aliasing" in odd(report, "Grain")
    assert "The first 1,000 positions of an epoch were examined." in notes_of(report)


def test_grain_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.arange(300) % 3
    assert len(examine(labels, seed=2**32 - 2, progress=False).found) == 3
    late = examine(labels, seed=2**64 - 2, progress=False)
    assert [found.name for found in late.found] == ["gpufeed", "numpy"]
    assert verdict_of(late).endswith(" With 300 records, only large differences would show.")
    monkeypatch.setitem(sys.modules, "grain", None)
    report = examine(labels, progress=False)
    assert [found.name for found in report.found] == ["gpufeed", "numpy"]
    assert "Grain is included if it is installed" in notes_of(report)[-1]


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        (19, {}, "there are 19 records; examining an order needs at least 20"),
        (100, {"batch_size": 101}, "batch_size is 101, but only 100 records of an epoch"),
        (100, {"seed": 2**64 - 1}, "seed is 18446744073709551615; it must be at most 2"),
        (100, {"kind": "balanced"}, "needs 16 classes, but the data have 3"),
        (100, {"kind": "balanced", "records_per_class": 5}, "a batch of 64 cannot be filled"),
        (100, {"kind": "weighted", "power": math.inf}, "power is inf"),
    ],
)
def test_what_is_out_of_range_is_named(
    records: int, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        examine(np.arange(records) % 3, progress=False, **options)


@pytest.fixture
def birds(many_birds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set without its images: only the list is looked at, and that in few epochs."""
    monkeypatch.setattr(shuffle_report, "_EPOCHS", 40)
    folder = tmp_path / "set" / "birds"
    shutil.copytree(many_birds, folder, ignore=shutil.ignore_patterns("images"))
    return folder


def command(birds: Path, *options: str) -> list[str]:
    return ["shuffle-report", str(birds), "--batch-size", "8", *options]


def test_the_command(birds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(command(birds, "--out", str(tmp_path / "new" / "plots"))) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.startswith(
        "birds (split: train), sampler index, seed 0: This order is as random as a uniform shuffle"
    )
    header = next(line for line in printed.out.splitlines() if line.startswith(" figure"))
    assert header.split()[:4] == ["figure", "gpufeed", "numpy", "Grain"]
    for name in ("Autocorrelation", "Aliasing", "Classes in a batch", "! marks figures"):
        assert name in printed.out
    target = tmp_path / "new/plots/gpufeed-shuffle.png"
    assert str(target) in printed.out
    with Image.open(target) as picture:
        assert picture.size == (1400, 860)
        assert len(np.unique(np.asarray(picture).reshape(-1, 3), axis=0)) > 50
    again = tmp_path / "again.png"
    assert cli.main(command(birds, "--out", str(again))) == 0
    assert again.read_bytes() == target.read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        ["--sampler", "repeated", "--repeats", "2"],
        ["--sampler", "weighted", "--power", "0.5"],
        ["--sampler", "balanced", "--records-per-class", "4", "--seed", "3"],
        ["--sampler", "sequential", "--split", "all", "--labels", "class", "--seed", "5000000000"],
    ],
    ids=lambda options: "-".join(options[:2]),
)
def test_the_command_takes_every_option(
    options: list[str], birds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(command(birds, *options, "--out", str(tmp_path / "x.png"))) == 0
    assert capsys.readouterr().out.count("\n") > 30
    assert (tmp_path / "x.png").stat().st_size > 10_000


def test_missing_matplotlib_is_named_before_any_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    missing = ["shuffle-report", str(tmp_path / "none"), "--out", str(tmp_path)]
    assert cli.main(missing) == 2
    assert capsys.readouterr().err == (
        'gpufeed: error: matplotlib is not installed; run: pip install "gpufeed[plot]"\n'
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "x.jpg"], "x.jpg is neither a folder nor a name that ends in .png"),
        (["--batch-size", "1000"], "--batch-size is 1000, but only 69 records"),
        (["--sampler", "random"], "Invalid value for '--sampler'"),
        (["--sampler", "balanced", "--records-per-class", "3"], "a batch of 8 cannot be filled"),
    ],
)
def test_errors_are_one_line(
    options: list[str],
    message: str,
    birds: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(command(birds, *options)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("gpufeed: error: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err
    assert [each.name for each in tmp_path.iterdir()] == ["set"]
