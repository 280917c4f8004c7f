"""Ledgers: what was delivered, in whatever order, and what is missing, double or different."""

from __future__ import annotations

import itertools
import json
import os
import re
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpufeed
from gpufeed import IndexSampler, Ledger, LedgerError, Manifest, ShardOptions, cli
from gpufeed import transforms as tf
from gpufeed.ledger import Run, merge
from tests.support.loaders import make

RUN = Run(
    manifest="a",
    sampler="b",
    transforms="c",
    num_records=9,
    epoch_size=9,
    per_epoch=9,
    repeats=False,
    pixels=False,
)


def ledger_of(deliveries: list[tuple[int, int]], run: Run = RUN) -> Ledger:
    ledger = Ledger(run)
    for epoch, key in deliveries:
        one = np.array([key])
        ledger.add(np.array([epoch]), one, one, np.full((1, 3), key, dtype=np.uint8))
    return ledger


DELIVERIES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 8)), max_size=40)


@given(DELIVERIES, st.randoms(use_true_random=False), st.integers(0, 40))
def test_neither_order_nor_parts_count(
    deliveries: list[tuple[int, int]], shuffled: Any, cut: int
) -> None:
    whole = ledger_of(deliveries)
    other = deliveries.copy()
    shuffled.shuffle(other)
    parts = merge([ledger_of(other[:cut]), ledger_of(other[cut:])])
    assert whole.epochs == parts.epochs == sorted({epoch for epoch, _ in deliveries})
    for epoch in range(4):
        assert whole.digest(epoch) == parts.digest(epoch)
        assert whole.counts(epoch).tolist() == parts.counts(epoch).tolist()
        assert whole.counts(epoch).tolist() == [deliveries.count((epoch, key)) for key in range(9)]


def test_epochs_past_take_next_to_nothing(tmp_path: Path) -> None:
    """Counted, put together, written and read: one epoch at a time is laid out."""
    count, epochs = 200_000, 12
    run = replace(RUN, num_records=count, epoch_size=count, per_epoch=count)
    laid_out = 4 * count
    tracemalloc.start()
    try:
        parts = [ledger_of([(epoch, epoch) for epoch in range(epochs)], run) for _ in range(2)]
        whole = merge(parts)
        assert tracemalloc.get_traced_memory()[0] < 4 * laid_out
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        whole.save(tmp_path / "whole.ledger")
        again = Ledger.load(tmp_path / "whole.ledger")
        assert tracemalloc.get_traced_memory()[1] - before < 5 * laid_out
    finally:
        tracemalloc.stop()
    assert [again.counts(epoch)[epoch] for epoch in range(epochs)] == [2] * epochs


@given(DELIVERIES, DELIVERIES)
def test_other_deliveries_have_other_digests(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    same = [difference.same for difference in ledger_of(one).compare(ledger_of(other))]
    assert all(same) == (sorted(one) == sorted(other))


@given(DELIVERIES, DELIVERIES)
def test_a_comparison_names_what_came_more_or_less_often(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    found = ledger_of(one).compare(ledger_of(other))
    assert [each.epoch for each in found] == sorted({epoch for epoch, _ in one + other})
    for each in found:
        visits = [(each.epoch, key) for key in range(9)]
        keys = [
            key
            for _, key in visits
            if one.count((each.epoch, key)) != other.count((each.epoch, key))
        ]
        assert (each.counts, each.pixels, list(each.keys)) == (len(keys), 0, keys)


def test_a_comparison_names_what_had_other_pixels() -> None:
    """Each time or once, in whatever order; another count is told as that and no more."""

    def ledger(*deliveries: tuple[int, int]) -> Ledger:
        made = Ledger(Run(**{**vars(RUN), "pixels": True}))
        for key, level in deliveries:
            one = np.array([key])
            made.add(np.array([0]), one, one, np.full((1, 3), level, dtype=np.uint8))
        return made

    one = ledger((1, 5), (1, 5), (2, 7), (3, 1), (4, 4), (4, 8), (5, 0))
    other = ledger((4, 8), (1, 6), (1, 6), (2, 7), (3, 2), (3, 2), (4, 4), (5, 9))
    (found,) = one.compare(other)
    assert (found.counts, found.pixels, found.keys, found.same) == (1, 2, (1, 3, 5), False)


def test_a_digest_is_of_the_epoch_too() -> None:
    assert ledger_of([(0, 3)]).digest(0) != ledger_of([(1, 3)]).digest(1)


def test_counts_end_where_they_would_wrap_round() -> None:
    full = Ledger(RUN)
    threes = np.full(65_535, 3)
    full.add(np.zeros_like(threes), threes, threes)
    with pytest.raises(
        LedgerError, match="record 3 was delivered more than 65,535 times in epoch 0"
    ):
        full.add(np.array([0]), np.array([3]), np.array([3]))
    with pytest.raises(LedgerError, match="the merged ledgers contain a record more than 65,535"):
        merge([full, ledger_of([(0, 3)])])
    assert full.counts(0).tolist() == [0, 0, 0, 65_535, 0, 0, 0, 0, 0]
    assert merge([full, ledger_of([(0, 4)])]).counts(0)[[3, 4]].tolist() == [65_535, 1]


def test_a_report_names_what_is_missing_and_double() -> None:
    report = ledger_of([(2, key) for key in (0, 1, 1, 3, 4, 5, 6, 6, 6)]).report(2)
    assert (report.deliveries, report.expected) == (9, 9)
    assert (report.missing, report.double, report.named) == (3, 2, "record")
    assert (report.missing_names, report.double_names) == ((2, 7, 8), (1, 6))
    assert not report.right
    assert ledger_of([(0, key) for key in range(9)]).report(0).right
    assert not ledger_of([(0, key) for key in range(8)]).report(0).right


@pytest.mark.parametrize("pixels", [False, True])
def test_a_ledger_is_read_as_it_was_written(pixels: bool, tmp_path: Path) -> None:
    run = Run(**{**vars(RUN), "pixels": pixels})
    written = ledger_of([(epoch, key) for epoch in (0, 5) for key in (1, 1, 8)], run)
    written.save(tmp_path / "a.ledger")
    read = Ledger.load(tmp_path / "a.ledger")
    assert read.run == run
    assert [each.same for each in read.compare(written)] == [True, True]
    assert [path.name for path in tmp_path.iterdir()] == ["a.ledger"]
    assert all(each.counts == each.pixels == 0 for each in read.compare(written))


def edited(path: Path, **changes: Any) -> None:
    """Write a ledger with its arrays, or what it says of itself, changed; None leaves one out."""
    ledger_of([(0, 3)], replace(RUN, pixels=True)).save(path)
    with np.load(path) as saved:
        arrays = dict(saved)
    about = json.loads(arrays["about"].tobytes())
    for name, value in changes.items():
        if name in about:
            about[name] = value
        elif value is None:
            del arrays[name]
        else:
            arrays[name] = value
    if "about" in arrays:
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)


def cut(path: Path) -> None:
    ledger_of([(0, 3)]).save(path)
    os.truncate(path, path.stat().st_size // 2)


COUNTS, LONGER = (np.frombuffer(zlib.compress(bytes(2 * n)), np.uint8) for n in (18, 19))


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (lambda path: path.write_bytes(b""), EOFError),
        (lambda path: path.write_bytes(b"{}"), ValueError),
        (lambda path: path.write_bytes(b"PK\x03\x04"), zipfile.BadZipFile),
        (cut, zipfile.BadZipFile),
        (lambda path: edited(path, about=None), KeyError),
        (lambda path: edited(path, **{"counts-0": None}), KeyError),
        (lambda path: edited(path, **{"counts-0": COUNTS[:-9]}), zlib.error),
        (lambda path: edited(path, **{"counts-0": LONGER}), "there are 19 counts"),
        (lambda path: edited(path, **{"pixels-0": np.zeros(9)}), r"pixels are float64 \(9,\)"),
        (lambda path: edited(path, run={**vars(RUN), "pixels": True, "num_records": 5}), "uint64"),
        (lambda path: edited(path, run={"manifest": "a"}), TypeError),
        (lambda path: edited(path, digests={"0": "x"}), "invalid literal for int"),
    ],
)
def test_what_is_no_ledger_is_named(
    write: Callable[[Path], object], error: str | type[Exception], tmp_path: Path
) -> None:
    write(tmp_path / "x")
    said = f"^{tmp_path}/x is not a gpufeed ledger, as written by .*save.*, or is damaged$"
    with pytest.raises(LedgerError, match=said) as caught:
        Ledger.load(tmp_path / "x")
    cause = caught.value.__cause__
    if isinstance(error, str):
        assert re.search(error, str(cause))
    else:
        assert isinstance(cause, error)


def test_a_pipe_is_no_ledger(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    with pytest.raises(
        LedgerError, match=r"x is not a gpufeed ledger, .*: not a regular file but a pipe$"
    ):
        Ledger.load(tmp_path / "x")


def test_an_edited_ledger_that_is_whole_is_read(tmp_path: Path) -> None:
    """So that it is the edits above that are refused."""
    edited(tmp_path / "x", **{"counts-0": COUNTS})
    assert Ledger.load(tmp_path / "x").counts(0).tolist() == [0] * 9


def test_objects_are_never_loaded(tmp_path: Path) -> None:
    """Pickles can hold code."""
    edited(tmp_path / "x", **{"counts-0": np.array([{"format": 1}], dtype=object)})
    with pytest.raises(LedgerError, match="x is not a gpufeed ledger, as") as caught:
        Ledger.load(tmp_path / "x")
    assert "allow_pickle=False" in str(caught.value.__cause__)


def test_ledgers_of_other_runs_are_not_added_up() -> None:
    other = Run(**{**vars(RUN), "sampler": "d"})
    with pytest.raises(
        LedgerError, match="belong to different runs: sampler is 'b' in one and 'd'"
    ):
        merge([Ledger(RUN), Ledger(other)])
    assert Ledger(RUN).compare(Ledger(other)) == []
    with pytest.raises(LedgerError, match="there is no ledger to merge"):
        merge([])
    with pytest.raises(LedgerError, match="num_records"):
        Ledger(RUN).compare(Ledger(Run(**{**vars(RUN), "num_records": 8})))


@pytest.mark.parametrize(
    "change",
    [
        {"manifest": "x"},
        {"transforms": "x"},
        {"num_records": 10},
        {"per_epoch": 8},
        {"repeats": True},
        {"pixels": True},
    ],
)
def test_only_ledgers_of_one_run_are_added_up(change: dict[str, Any]) -> None:
    (name,) = change
    other = Ledger(Run(**{**vars(RUN), **change}))
    with pytest.raises(LedgerError, match=f"belong to different runs: {name} is "):
        merge([Ledger(RUN), other])
    if name in ("manifest", "num_records", "pixels"):
        with pytest.raises(LedgerError, match=f"belong to different runs: {name} is "):
            Ledger(RUN).compare(other)
    else:
        assert Ledger(RUN).compare(other) == []


def test_an_epoch_with_too_much_or_too_little_is_not_right() -> None:
    run = Run(**{**vars(RUN), "repeats": True, "epoch_size": 12})
    for count, right in ((8, False), (9, True), (10, False)):
        ledger = Ledger(run)
        ledger.add(np.zeros(count, dtype=np.int64), np.arange(count), np.full(count, 4))
        assert ledger.report(0).right == right
    assert not ledger_of([(0, key) for key in (*range(9), 8)]).report(0).right


def test_a_ledger_of_another_format_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("gpufeed.ledger.file._FORMAT", 2)
        Ledger(RUN).save(tmp_path / "x")
    with pytest.raises(LedgerError, match="x has format 2; this version of gpufeed reads format 1"):
        Ledger.load(tmp_path / "x")


# ---------------------------------------------------------------- of a loader


def fed(pictures: Manifest, epochs: int = 2, **options: Any) -> Ledger:
    settled = {"ledger": "pixels", "last_batch": "pad", "batch_size": 12, **options}
    with make(pictures, **settled) as loader:
        for _ in range(epochs):
            for _batch in loader:
                pass
        assert loader.ledger is not None
        return loader.ledger


@pytest.fixture(scope="module")
def alone(pictures: Manifest) -> Ledger:
    return fed(pictures)


def test_an_epoch_is_delivered_whole(alone: Ledger) -> None:
    for epoch in range(2):
        report = alone.report(epoch)
        assert report.right
        assert (report.deliveries, report.missing, report.double, report.records) == (50, 0, 0, 50)
    assert alone.digest(0) != alone.digest(1)


def test_shards_add_up_to_the_run(pictures: Manifest, alone: Ledger) -> None:
    shards = [
        fed(pictures, batch_size=4, shard=ShardOptions(index, 3), num_threads=1, prefetch=1)
        for index in range(3)
    ]
    assert not any(shard.report(0).right for shard in shards)
    whole = merge(shards)
    assert [whole.digest(epoch) for epoch in range(2)] == [alone.digest(e) for e in range(2)]
    assert all(each.same for each in whole.compare(alone))


@pytest.mark.parametrize(("last_batch", "delivered"), [("drop", 48), ("pad", 50), ("partial", 50)])
def test_what_an_epoch_leaves_out_is_known(
    pictures: Manifest, last_batch: str, delivered: int
) -> None:
    report = fed(pictures, epochs=1, last_batch=last_batch, ledger=True).report(0)
    assert (report.deliveries, report.expected, report.right) == (delivered, delivered, True)


def test_a_resumed_run_takes_its_ledger_along(
    pictures: Manifest, alone: Ledger, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"ledger": "pixels", "last_batch": "pad", "batch_size": 12}
    with make(pictures, **options) as loader:
        for _batch in itertools.islice(loader, 3):
            pass
        state = loader.get_state()
        loader.ledger.save(tmp_path / "ledger")
        next(iter(loader))  # handed out after the checkpoint, and so again by the next run
    with make(pictures, **options, prefetch=1) as loader:
        loader.set_state(state)
        loader.ledger.include(Ledger.load(tmp_path / "ledger"))
        while loader.epoch < 2:
            for _batch in loader:
                pass
        assert all(each.same for each in loader.ledger.compare(alone))


def test_single_batches_are_no_deliveries(pictures: Manifest) -> None:
    with make(pictures, ledger=True) as loader:
        loader.batch(3)
        assert loader.ledger.epochs == []
    assert make(pictures).ledger is None
    with pytest.raises(gpufeed.ConfigError, match=r"ledger is 'all'; it must be True, False or"):
        make(pictures, ledger="all")


def test_all_views_are_digested(pictures: Manifest) -> None:
    """As one row of bytes each record, side by side."""
    views = gpufeed.Views([[tf.RandomResizedCrop(size), tf.ToDtype("uint8")] for size in (8, 12)])
    with make(pictures, transforms=views, ledger="pixels", last_batch="pad") as loader:
        batches = list(loader)
        ledger = loader.ledger
    wanted, place = Ledger(ledger.run), 0
    for batch in batches:
        keys = batch["record_key"][batch["valid"]]
        rows = [view[: len(keys)].reshape(len(keys), -1) for view in batch["image"]]
        places = np.arange(place, place + len(keys))
        wanted.add(places * 0, places, keys, np.hstack(rows))
        place += len(keys)
    assert all(each.same for each in ledger.compare(wanted))


SAMPLERS = {
    "weighted": gpufeed.WeightedSampler(np.arange(1, 51)),
    "repeated": gpufeed.RepeatedAugmentationSampler(50),
    "virtual": IndexSampler(50, shuffle=True, epoch_size=120),
    "mixture": gpufeed.MixtureSampler([30, 20], (1, 1)),
    "listed": [5, 5, 7, 9] * 12,
}


@pytest.mark.parametrize("kind", SAMPLERS)
def test_orders_that_repeat_records_are_proved_by_their_places(
    pictures: Manifest, kind: str
) -> None:
    """Two processes that both take the first shard deliver as much as two that share."""
    options: dict[str, Any] = {"sampler": SAMPLERS[kind], "ledger": True, "epochs": 1}
    options |= {"batch_size": 6, "last_batch": "drop"}
    one, other = (fed(pictures, **options, shard=ShardOptions(index, 2)) for index in range(2))
    whole = merge([one, other]).report(0)
    assert whole.right
    assert whole.records < whole.deliveries
    twice = merge([one, one]).report(0)
    assert (twice.deliveries, twice.right) == (whole.deliveries, False)
    assert twice.missing == twice.double == whole.deliveries // 2
    assert (twice.named, twice.missing_names[0], twice.double_names[0]) == ("place", 6, 0)


def test_an_epoch_that_is_over_takes_little_memory() -> None:
    import pickle

    size = {"num_records": 100_000, "epoch_size": 100_000, "per_epoch": 100_000}
    ledger = Ledger(Run(**{**vars(RUN), **size}))
    for epoch in range(3):
        ledger.add(np.full(100_000, epoch), np.arange(100_000), np.arange(100_000))
    assert len(pickle.dumps(ledger)) < 410_000, "only the last epoch's counts are laid out"
    assert all(ledger.report(epoch).right for epoch in range(3))
    ledger.add(np.array([0]), np.array([7]), np.array([7]))
    assert ledger.report(0).double_names == (7,)


# ---------------------------------------------------------------- on the command line


def test_the_command_proves_it(
    pictures: Manifest, alone: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for index in range(2):
        shard = fed(pictures, batch_size=6, shard=ShardOptions(index, 2))
        files.append(str(tmp_path / f"rank-{index}.ledger"))
        shard.save(files[-1])
    alone.save(tmp_path / "alone.ledger")
    assert cli.main(["ledger", *files]) == 0
    printed = capsys.readouterr().out
    assert "2 epochs: every record came exactly once." in printed
    assert alone.digest(1) in printed

    assert cli.main(["ledger", *files, "--against", str(tmp_path / "alone.ledger")]) == 0
    printed = capsys.readouterr().out
    assert "2 epochs: both runs have the same records and pixels in the same order." in printed

    assert cli.main(["ledger", files[0]]) == 1
    printed = capsys.readouterr().out
    absent = np.flatnonzero(Ledger.load(files[0]).counts(0) == 0)
    assert f"Epoch 0: missing {len(absent)} records: {absent[0]}, {absent[1]}, " in printed

    assert cli.main(["ledger", *files, files[1]]) == 1
    assert "Epoch 1: duplicate 24 records: " in capsys.readouterr().out


def test_the_command_names_what_differs(
    pictures: Manifest, alone: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone.save(tmp_path / "alone.ledger")
    sampler = IndexSampler(50, shuffle=True, seed=4)
    fed(pictures, sampler=sampler).save(tmp_path / "other.ledger")
    command = ["ledger", str(tmp_path / "alone.ledger"), "--against"]
    assert cli.main([*command, str(tmp_path / "al*.ledger")]) == 0
    capsys.readouterr()
    backwards = gpufeed.SubsetSampler(50, np.arange(50)[::-1])
    for name, order in (("there", range(50)), ("back", backwards)):
        fed(pictures, sampler=order, ledger=True).save(tmp_path / f"{name}.ledger")
    there, back = str(tmp_path / "there.ledger"), str(tmp_path / "back.ledger")
    assert cli.main(["ledger", there, "--against", back]) == 1
    assert "Epoch 0: the same records in a different order." in capsys.readouterr().out
    assert cli.main([*command, str(tmp_path / "other.ledger")]) == 1
    printed = capsys.readouterr().out
    assert "Epoch 0: 0 records came a different number of times, 50 with different pix" in printed
    assert cli.main([*command, str(tmp_path / "none")]) == 2
    assert "none: No such file or directory" in capsys.readouterr().err
