"""The shuffle report: its figures against brute force, and orders that it must call bad."""

from __future__ import annotations

import itertools
import math
import shutil
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grain.python as grain
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gpufeed import ConfigError, cli
from gpufeed.order import permutation
from gpufeed.tools import shuffle, shuffle_report, shuffle_table
from gpufeed.tools.shuffle_report import Report, examine, make_sampler
from gpufeed.tools.synth import write_nabirds

# As many as NABirds has for training, of as many species.
RECORDS, CLASSES = 23_929, 404
QUICK = {"epochs": 2, "many_epochs": 200, "progress": False}


def cells(report: Report, source: str) -> dict[str, shuffle_table.Cell]:
    place = [found.name for found in report.figures].index(source)
    return {row.name: row.cells[place] for row in shuffle_table.rows_of(report)}


def odd(report: Report, source: str) -> set[str]:
    return {name for name, cell in cells(report, source).items() if cell.odd}


@pytest.fixture
def no_grain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grain gives one record at a time: slow, where it is not what is looked at."""
    monkeypatch.setitem(sys.modules, "grain", None)


@pytest.fixture(scope="module")
def plain() -> Report:
    return examine(np.arange(RECORDS) % CLASSES, **QUICK)


def test_autocorrelation_of_known_orders() -> None:
    swinging = shuffle.autocorrelation(np.tile([3, 8], 500), 4)
    assert swinging == pytest.approx([-1, 1, -1, 1])
    # A sawtooth of period 4 is the same again four on, and goes against itself two on.
    sawtooth = shuffle.autocorrelation(np.tile([0, 1, 2, 3], 5_000), 4)
    assert sawtooth == pytest.approx([-0.2, -0.6, -0.2, 1], abs=1e-3)


@given(st.lists(st.integers(0, 50), min_size=5, max_size=40).filter(lambda k: len(set(k)) > 1))
def test_autocorrelation_is_its_sum(keys: list[int]) -> None:
    mean = statistics.fmean(keys)
    for lag, found in enumerate(shuffle.autocorrelation(np.array(keys), 3), start=1):
        products = [(a - mean) * (b - mean) for a, b in zip(keys, keys[lag:], strict=False)]
        assert found == pytest.approx(statistics.fmean(products) / statistics.pvariance(keys))


@given(st.lists(st.integers(0, 9), min_size=2, max_size=40))
def test_the_commonest_difference(keys: list[int]) -> None:
    counted = Counter(later - key for key, later in itertools.pairwise(keys))
    difference, count = shuffle.commonest_difference(np.array(keys))
    assert count == max(counted.values()) == counted[difference]
    assert difference == min(each for each in counted if counted[each] == count)


@pytest.mark.parametrize(("size", "looked"), [(60, 60), (1_000, 1_000), (1_000, 300)])
def test_the_bound_of_the_commonest_difference(size: int, looked: int) -> None:
    """By simulation: hardly any shuffle goes beyond it, and one below it would be too strict."""
    drawn = np.random.default_rng(1)
    counts = [
        shuffle.commonest_difference(drawn.permutation(size)[:looked])[1] for _ in range(3_000)
    ]
    bound = shuffle.commonest_bound(size, looked)
    assert np.mean(np.array(counts) > bound) < 0.003
    assert np.mean(np.array(counts) > bound - 2) > 0.001


def test_poissons_tail() -> None:
    for count, mean in itertools.product(range(6), (0.01, 0.5, 1.0, 3.0)):
        below = sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(count + 1))
        tail = shuffle._poisson_tail(count, np.array([mean]))
        assert tail == pytest.approx(1 - below, rel=1e-6, abs=1e-15)


def test_bounds_are_those_of_tables() -> None:
    assert shuffle.normal_bound() == pytest.approx(3.2905, abs=1e-4)
    assert shuffle.normal_bound(27) > shuffle.normal_bound(9) > 3.5
    # More than 5 come with probability 0.00059, more than 4 with 0.0037.
    assert shuffle.poisson_bound(1.0) == 5
    assert shuffle.poisson_bound(1.0, 2) == 6
    assert shuffle.poisson_bound(0.0) == 0


@given(st.integers(1, 400), st.integers(1, 60))
def test_parts_are_as_large_as_counted(size: int, parts: int) -> None:
    counted = Counter(value * parts // size for value in range(size))
    assert shuffle.part_sizes(size, parts).tolist() == [counted[part] for part in range(parts)]


@given(st.integers(20, 300), st.integers(2, 90), st.integers(0, 99))
def test_chi_square_is_its_sum(draws: int, size: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(size, size=(draws, 3))
    found = shuffle.chi_square(values, size)
    assert found is not None
    parts = min(50, size, draws // 5)
    lengths = Counter(value * parts // size for value in range(size))
    total = 0.0
    for column in range(3):
        counted = Counter(value * parts // size for value in values[:, column].tolist())
        for part in range(parts):
            expected = draws * lengths[part] / size
            total += (counted[part] - expected) ** 2 / expected
    assert found.value == pytest.approx(total)
    assert found.freedom == 3 * (parts - 1)
    assert found.counts.sum() == 3 * draws


def test_chi_square_of_even_and_uneven_values() -> None:
    even = shuffle.chi_square(np.tile(np.arange(100), 10)[:, None], 100)
    assert even is not None
    assert (even.value, even.freedom) == (0, 49)
    one = shuffle.chi_square(np.zeros((1000, 1), dtype=np.int64), 100)
    assert one is not None
    assert one.value == pytest.approx(1000 * 49)
    assert one.z > 1000
    assert shuffle.chi_square(np.zeros((19, 4), dtype=np.int64), 100) is None
    drawn = np.random.default_rng(0)
    scores = [shuffle.chi_square(drawn.integers(999, size=(500, 20)), 999) for _ in range(200)]
    z = [found.z for found in scores if found]
    assert abs(statistics.fmean(z)) < 0.25
    assert 0.85 < statistics.stdev(z) < 1.15


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=60),
    st.integers(1, 12),
)
def test_classes_are_counted_batch_by_batch(labels: list[int], batch_size: int) -> None:
    batch_size = min(batch_size, len(labels))
    distinct, largest = shuffle.classes_per_batch(np.array(labels), batch_size)
    batches = [
        labels[start : start + batch_size]
        for start in range(0, len(labels) - batch_size + 1, batch_size)
    ]
    assert distinct.tolist() == [len(set(batch)) for batch in batches]
    assert largest.tolist() == [max(Counter(batch).values()) for batch in batches]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any), st.data())
def test_expected_classes_of_all_batches_there_are(sizes: list[int], data: st.DataObject) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    batch_size = data.draw(st.integers(1, min(len(labels), 5)))
    counts = [len(set(batch)) for batch in itertools.combinations(labels.tolist(), batch_size)]
    mean, deviation = shuffle.expected_classes(np.array(sizes), batch_size)
    assert mean == pytest.approx(statistics.fmean(counts))
    assert deviation == pytest.approx(statistics.pstdev(counts), abs=1e-6)


def test_expected_classes_of_simulated_batches() -> None:
    drawn = np.random.default_rng(3)
    sizes = drawn.integers(1, 120, size=CLASSES)
    labels = np.repeat(np.arange(CLASSES), sizes)
    counts = [len(np.unique(drawn.choice(labels, 64, replace=False))) for _ in range(4_000)]
    mean, deviation = shuffle.expected_classes(sizes, 64)
    assert mean == pytest.approx(np.mean(counts), abs=4 * deviation / math.sqrt(4_000))
    assert deviation == pytest.approx(np.std(counts), rel=0.06)


def test_correlation_and_agreements() -> None:
    order = np.random.default_rng(0).permutation(100)
    assert shuffle.correlation(order, order) == pytest.approx(1)
    assert shuffle.correlation(order, 99 - order) == pytest.approx(-1)
    assert shuffle.agreements(order, order) == 100
    assert shuffle.agreements(order, np.roll(order, 1)) == 0


def test_what_is_followed_is_what_the_orders_hold() -> None:
    """Places and records over many epochs, had without the orders, against the orders."""
    labels = np.arange(500) % 7
    followed = np.array([0, 13, 499])
    sources = [
        shuffle_report._Ours(lambda seed, kind=kind: make_sampler(kind, labels, seed), 5)
        for kind in ("index", "sequential", "repeated")
    ]
    sources += [
        shuffle_report._Numpys(500, 5),
        shuffle_report._Grains(500, 5, grain.IndexSampler),
    ]
    had = []
    for source in sources:
        places, records = source.many(followed, 20)
        orders = [source.order(0, epoch) for epoch in range(20)]
        assert records is not None
        assert records.tolist() == [order[followed].tolist() for order in orders]
        had.append(places is not None)
        if places is not None:
            assert places.tolist() == [
                [order.tolist().index(record) for record in followed] for order in orders
            ]
    assert had == [True, True, False, True, False]


def test_a_plain_shuffle_is_as_good_as_numpys(plain: Report) -> None:
    assert odd(plain, "gpufeed") == set()
    assert odd(plain, "numpy") == set()
    ours = plain.figures[0]
    assert (
        ours.first.tolist()
        == permutation.permute(np.arange(RECORDS), RECORDS, permutation.Key(0, 0)).tolist()
    )
    assert (ours.fewest, ours.most) == (1, 1)
    assert len(ours.classes) == 2 * (RECORDS // 64)


def test_grains_faults_are_found(plain: Report) -> None:
    """Epoch e of its seed s is epoch e - 1 of seed s + 1, and its neighbours are correlated."""
    theirs = cells(plain, "Grain")
    assert theirs["Aliasing"] == ("23,929", "of 23,929", True)
    assert theirs["Largest autocorrelation"].odd
    assert theirs["Epoch and next epoch"].odd
    assert not theirs["Visits to a record"].odd
    assert int(cells(plain, "gpufeed")["Aliasing"].value) < 7


def test_a_sequential_order_is_bad() -> None:
    sorted_by_class = np.sort(np.arange(4_000) % 50)
    report = examine(sorted_by_class, "sequential", batch_size=40, **QUICK)
    assert odd(report, "gpufeed") == {
        "Largest autocorrelation",
        "Commonest difference",
        "Places of a record",
        "Records at a place",
        "Epoch and next epoch",
        "Seed and next seed",
        "Aliasing",
        "Classes in a batch",
    }
    found = cells(report, "gpufeed")
    assert found["Commonest difference"][:2] == ("3,999 times", "+1")
    assert found["Classes in a batch"].value == "1.00"
    assert found["Commonest class"].value == "100.0%"
    assert odd(report, "numpy") == set()
    assert "is no shuffle" in shuffle_table.notes_of(report)[-1]


@pytest.fixture
def two_rounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Too few for a Feistel network."""
    monkeypatch.setattr(permutation, "_ROUNDS", 2)
    permutation._keys_of.cache_clear()
    yield
    permutation._keys_of.cache_clear()


@pytest.mark.usefixtures("two_rounds", "no_grain")
def test_a_weak_cipher_is_bad() -> None:
    report = examine(np.arange(RECORDS) % CLASSES, **QUICK)
    assert {"Largest autocorrelation", "Commonest difference"} <= odd(report, "gpufeed")


@pytest.mark.usefixtures("no_grain")
@pytest.mark.parametrize(
    ("kind", "strange"),
    [
        ("weighted", {"Visits to a record", "Classes in a batch"}),
        ("balanced", {"Visits to a record", "Classes in a batch"}),
        (
            "repeated",
            {
                "Visits to a record",
                "Classes in a batch",
                "Largest autocorrelation",
                "Commonest difference",
            },
        ),
    ],
)
def test_other_samplers_differ_where_they_are_meant_to(
    kind: shuffle_report.Kind, strange: set[str]
) -> None:
    drawn = np.random.default_rng(2)
    labels = drawn.integers(1, 41, size=5_000) * drawn.integers(1, 3, size=5_000)
    report = examine(labels, kind, **QUICK)
    assert odd(report, "gpufeed") == strange
    assert f"The {kind} sampler is meant to" in shuffle_table.notes_of(report)[-1]
    if kind == "balanced":
        assert set(report.figures[0].classes.tolist()) == {16}
        assert set(report.figures[0].shares.tolist()) == {4 / 64}


def test_long_epochs_are_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = examine(np.arange(5_000) % 10, **QUICK)
    limits = {"_LOOKED": 3_000, "_LOOKED_GRAIN": 1_000, "_PERMUTED": 50_000, "_AT_ONCE": 700}
    for name, most in limits.items():
        monkeypatch.setattr(shuffle_report, name, most)
    report = examine(np.arange(5_000) % 10, **QUICK)
    for part, all_of_it in zip(report.figures, whole.figures, strict=True):
        assert part.first.tolist() == all_of_it.first[: part.looked].tolist()
    assert [found.looked for found in report.figures] == [3_000, 3_000, 1_000]
    assert odd(report, "gpufeed") == odd(report, "numpy") == set()
    assert odd(report, "Grain") >= {"Aliasing"}
    notes = shuffle_table.notes_of(report)
    assert "Of gpufeed's epochs, the first 3,000 positions were looked at." in notes
    assert "Of Grain's epochs, the first 1,000 positions were looked at." in notes
    assert cells(report, "gpufeed")["Visits to a record"][:2] == ("0 and 1", "in 3,000")
    # 10 of numpy's orders are too few for a chi-square.
    assert cells(report, "numpy")["Places of a record"].value == "-"
    assert cells(report, "gpufeed")["Places of a record"].value.startswith("z ")


def test_grain_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.arange(300) % 3
    assert len(examine(labels, **QUICK).figures) == 3
    assert len(examine(labels, seed=2**32 - 2, **QUICK).figures) == 3
    late = examine(labels, seed=2**64 - 2, **QUICK)
    assert [found.name for found in late.figures] == ["gpufeed", "numpy"]
    monkeypatch.setitem(sys.modules, "grain", None)
    report = examine(labels, **QUICK)
    assert [found.name for found in report.figures] == ["gpufeed", "numpy"]
    assert "Grain stands beside them where it is installed" in shuffle_table.notes_of(report)[-1]


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        (19, {}, "there are 19 records; an order of fewer than 20"),
        (100, {"batch_size": 101}, "batch_size is 101, but an epoch has 100 records"),
        (100, {"epochs": 1}, "epochs is 1; it must be 2 or more"),
        (100, {"seed": 2**64 - 1}, "seed is 18446744073709551615; the next one is looked at too"),
        (100, {"kind": "balanced"}, "takes 16 classes, and the data have 3"),
        (100, {"kind": "balanced", "records_per_class": 5}, "a batch of 64 can not be filled"),
        (100, {"kind": "weighted", "power": math.inf}, "power is inf"),
    ],
)
def test_what_is_out_of_range_is_named(
    records: int, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        examine(np.arange(records) % 3, progress=False, **options)


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set without its pictures: only the list is looked at."""
    folder = tmp_path_factory.mktemp("shuffle") / "birds"
    write_nabirds(folder, images=144, max_side=64, progress=False)
    shutil.rmtree(folder / "images")
    return folder


def command(birds: Path, *options: str) -> list[str]:
    few = ["--batch-size", "8", "--epochs", "2", "--many-epochs", "100"]
    return ["shuffle-report", "--data", str(birds), *few, *options]


def test_the_command(birds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(command(birds, "--out", str(tmp_path))) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.startswith("birds (split: train): ")
    assert "the sampler index, seed 0, epochs 0 to 1" in printed.out
    header = next(line for line in printed.out.splitlines() if "figure" in line)
    assert header.split()[:4] == ["figure", "gpufeed", "numpy", "Grain"]
    for name in ("Largest autocorrelation", "Aliasing", "Classes in a batch", "! marks what"):
        assert name in printed.out
    target = tmp_path / "gpufeed-shuffle.png"
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
    missing = ["shuffle-report", "--data", str(tmp_path / "none"), "--out", str(tmp_path)]
    assert cli.main(missing) == 2
    assert capsys.readouterr().err == (
        'gpufeed: error: matplotlib is not installed; run: pip install "gpufeed[plot]"\n'
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "x.jpg"], "x.jpg is neither a folder nor a name that ends in .png"),
        (["--batch-size", "1000"], "batch_size is 1000, but an epoch has"),
        (["--sampler", "random"], "Invalid value for '--sampler'"),
        (["--epochs", "1"], "Invalid value for '--epochs'"),
        (["--sampler", "balanced", "--records-per-class", "3"], "a batch of 8 can not be filled"),
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
    assert list(tmp_path.iterdir()) == []
