"""What comes in the place of bad images, and that nothing else is touched by it."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import warnings
import weakref
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufeed import (
    ConfigError,
    DecodeError,
    IndexSampler,
    Ledger,
    Loader,
    Manifest,
    ManifestError,
    MixtureSampler,
    PipelineError,
    SequentialSampler,
    ShardOptions,
    StateError,
    SubsetSampler,
    TooManyFailuresError,
    WeightedSampler,
    concat,
    read_folder,
    read_table,
)
from gpufeed import transforms as tf
from gpufeed.decode.decoders import NvImageCodec
from gpufeed.faults.blank import blank_sizes
from gpufeed.plan.planner import BatchPlan
from tests.support.media import jpeg, make_manifest, picture

COUNT, CLASSES = 24, 3
GEOMETRY = [tf.RandomResizedCrop(16), tf.RandomHorizontalFlip()]
SMALL = [tf.RandomCrop(10)]
"""Windows that often lie where a cut image is still whole."""


OPENER: dict[str, Any] = {}


@pytest.fixture(params=["threads", "graph"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What opens images: threads, as on the CPU, or DALI's graph, as on a GPU."""
    monkeypatch.setitem(OPENER, "opener", request.param)
    return str(request.param)


@pytest.fixture
def birds(tmp_path: Path) -> Manifest:
    return make_manifest(tmp_path / "birds", [(50, 60)] * COUNT, classes=CLASSES, boxes=True)


def make(manifest: Manifest, **options: Any) -> Loader:
    given = {
        "sampler": IndexSampler(len(manifest), shuffle=True, seed=3),
        "transforms": [*GEOMETRY, tf.ToDtype("uint8")],
        "batch_size": 4,
        "device": "cpu",
        "num_threads": 2,
        "on_error": "substitute",
        "max_failures": 1.0,
        **OPENER,
        **options,
    }
    return Loader(manifest, **given)


def path_of(manifest: Manifest, key: int) -> Path:
    return manifest.root / manifest.frame["path"][key]


def damage(manifest: Manifest, keys: Collection[int], *, left: float = 0.0) -> None:
    """Each in another way; of those cut off, so much of the scan is left."""
    for number, key in enumerate(sorted(keys)):
        path = path_of(manifest, key)
        content = path.read_bytes()
        path.unlink()
        if number % 4 == 0:
            scan = content.index(b"\xff\xda") + 20
            path.write_bytes(content[: scan + int(left * (len(content) - scan))])
        elif number % 4 == 1:
            path.write_bytes(b"<html>")
        elif number % 4 == 2:
            path.write_bytes(jpeg(picture(20, 30, seed=key)))


Row = tuple[int, int, bytes]


def rows_of(batch: dict[str, Any]) -> list[Row]:
    """Of each record its key, label and pixels."""
    keys, labels = batch["record_key"].tolist(), batch["label"].tolist()
    return [
        (key, label, np.asarray(image).tobytes())
        for key, label, image in zip(keys, labels, batch["image"], strict=True)
    ]


def epochs(loader: Loader, count: int = 2) -> list[Row]:
    return [row for _ in range(count) for batch in loader for row in rows_of(batch)]


@pytest.mark.usefixtures("way")
def test_only_the_place_of_a_bad_record_differs(birds: Manifest) -> None:
    with make(birds) as loader:
        healthy = epochs(loader)
    bad = {3, 7, 8, 20}
    damage(birds, bad)
    with make(birds) as loader:
        mended = epochs(loader)
        assert {failure.record_key for failure in loader.quarantine} == bad
    for before, after in zip(healthy, mended, strict=True):
        if before[0] not in bad:
            assert after == before
        else:
            assert after[0] not in bad
            assert after[1] == before[1], "a stand-in is of the same class"
            assert birds.frame["label"][after[0]] == after[1]
    stand_ins = [after[0] for before, after in zip(healthy, mended, strict=True) if before != after]
    assert len(set(stand_ins)) > 3, "each visit has a stand-in of its own"


@pytest.mark.usefixtures("way")
def test_a_stand_in_looks_as_the_record_would_have(birds: Manifest) -> None:
    """With all files alike, the image that stands in is the one that was to come."""
    first = path_of(birds, 0).read_bytes()
    for key in range(COUNT):
        path_of(birds, key).write_bytes(first)
    with make(birds) as loader:
        healthy = epochs(loader)
    damage(birds, {5})
    with make(birds) as loader:
        mended = epochs(loader)
    assert [row[2] for row in healthy] == [row[2] for row in mended]
    assert healthy != mended


@settings(max_examples=3)
@given(
    bad=st.sets(st.integers(0, COUNT - 1), max_size=COUNT - 1),
    shards=st.sampled_from([1, 2, 4]),
    prefetch=st.integers(1, 3),
    stop=st.integers(0, 11),
    policy=st.sampled_from(["substitute", "blank"]),
    geometry=st.sampled_from([GEOMETRY, SMALL]),
)
@pytest.mark.usefixtures("way")
def test_the_same_at_any_shards_and_after_any_resume(
    tmp_path_factory: pytest.TempPathFactory,
    bad: set[int],
    shards: int,
    prefetch: int,
    stop: int,
    policy: str,
    geometry: list[tf.Transform],
) -> None:
    folder = tmp_path_factory.mktemp("birds")
    birds = make_manifest(folder, [(30, 40)] * COUNT, classes=CLASSES)
    # Half an image is decoded where its window lies in that half: bad in one epoch only.
    damage(birds, bad, left=0.5)
    chosen: dict[str, Any] = {
        "on_error": policy,
        "transforms": [*geometry, tf.ToDtype("uint8")],
    }
    with make(birds, **chosen) as loader:
        wanted = [rows_of(batch) for _ in range(2) for batch in loader]

    # Batch by batch, from the last to the first, so that all is found out in another order.
    with make(birds, **chosen) as loader:
        assert [rows_of(loader.batch(step)) for step in reversed(range(12))] == wanted[::-1]

    def shard(number: int, state: Any) -> tuple[list[list[Row]], Any]:
        options = ShardOptions(number, shards)
        with make(birds, **chosen, shard=options, batch_size=4 // shards) as loader:
            if state is not None:
                loader.load_state_dict(state)
            loader._prefetch = prefetch
            found = []
            while loader.step < (stop if state is None else 12):
                found += [rows_of(next(iter(loader)))]
            return found, loader.state_dict()

    before = [shard(number, None) for number in range(shards)]
    # All go on from the state of the first.
    after = [shard(number, before[0][1])[0] for number in range(shards)]
    parts = [first + rest for (first, _), rest in zip(before, after, strict=True)]
    steps = zip(*parts, strict=True)
    assert [[row for piece in step for row in piece] for step in steps] == wanted


def test_a_state_with_a_quarantine_knows_what_is_bad(birds: Manifest) -> None:
    damage(birds, {2, 9})
    with make(birds) as loader:
        wanted = epochs(loader)
        state = loader.get_state()
        list(loader)
    assert b'"quarantine"' in state
    with make(birds) as loader:
        loader.set_state(state)
        assert loader.quarantine.record_keys.tolist() == [2, 9]
        assert loader.epoch == 2
        loader.seek(0)
        assert epochs(loader) == wanted
        # It counts towards what is allowed.
    with make(birds, max_failures=2) as loader:
        loader.set_state(state)
        damage(birds, {5})
        with pytest.raises(TooManyFailuresError, match="3 records could not be read"):
            epochs(loader)


def test_a_healthy_states_quarantine_is_empty(birds: Manifest) -> None:
    with make(birds) as loader:
        epochs(loader)
        state = loader.state_dict()
        assert state.pop("quarantine") == "[]"
        loader.load_state_dict(state)  # as one that was saved before there were quarantines


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_pytorchs_distributed_checkpoints_carry_it(birds: Manifest, tmp_path: Path) -> None:
    """Into a loader that has met no bad record, and into one that has met more."""
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    damage(birds, {2, 9})
    with make(birds) as loader:
        epochs(loader, 1)
        dcp.save({"loader": loader}, checkpoint_id=tmp_path / "checkpoint")
    for further in (set(), {5}):
        with make(birds) as loader:
            if further:
                damage(birds, further)
                epochs(loader)
                assert 5 in loader.quarantine
            dcp.load({"loader": loader}, checkpoint_id=tmp_path / "checkpoint")
            assert loader.quarantine.record_keys.tolist() == [2, 9]
            assert loader.epoch == 1


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("x", "the state's 'quarantine' is not a JSON list of failures: Expecting value"),
        (7, "is not a JSON list of failures: the JSON object must be str"),
        ("null", "is not a JSON list of failures: 'NoneType' object is not iterable"),
        (["x"], "is not a JSON list of failures: .* must be a mapping, not str"),
        ([{"record_key": 1}], "failures: .* missing 3 required .* 'path', 'reason', and 'step'"),
        (
            [{"record_key": "1", "path": "", "reason": "", "step": 0}],
            "is not a JSON list of failures",
        ),
        (
            [{"record_key": 1, "path": "x", "reason": "", "step": 0}],
            r"'quarantine' has record 1 \(x\), which is not in this manifest",
        ),
        (
            [{"record_key": 10**30, "path": "x", "reason": "", "step": 0}],
            "which is not in this manifest",
        ),
    ],
)
def test_an_edited_quarantine_is_refused(birds: Manifest, entry: Any, said: str) -> None:
    with make(birds) as loader:
        loader.skip(3)
        text = json.dumps(entry) if isinstance(entry, list) else entry
        state = {**loader.state_dict(), "quarantine": text}
        loader.seek(1)
        with pytest.raises(StateError, match=said):
            loader.load_state_dict(state)
        assert loader.step == 1


def test_of_another_manifest_only_the_same_files_are_kept(birds: Manifest) -> None:
    damage(birds, {2, 9})
    with make(birds) as loader:
        epochs(loader, 1)
        state = loader.state_dict()
    frame = birds.frame.with_columns(
        path=pl.when(pl.int_range(pl.len()) == 9).then(pl.lit("00000.jpg")).otherwise("path")
    )
    with make(Manifest(frame, birds.root, birds.classes)) as loader:
        loader.load_state_dict(state, ignore=["manifest"])
        assert loader.quarantine.record_keys.tolist() == [2]


@pytest.mark.parametrize("kind", ["subset", "weighted", "mixture"])
def test_stand_ins_are_of_those_that_the_sampler_gives(birds: Manifest, kind: str) -> None:
    """Never from the rest of the manifest, which may be the test set."""
    wanted = range(0, COUNT, 2)
    damage(birds, {0, 2, 4, 6})
    if kind == "subset":
        sampler: Any = SubsetSampler(COUNT, list(wanted), shuffle=True)
    elif kind == "weighted":
        sampler = WeightedSampler([1.0 - key % 2 for key in range(COUNT)])
    else:
        # Of two sources, of which the second gives only what is in it.
        odd = pl.int_range(pl.len()) % 2 == 1
        birds = concat([birds.filter(~odd), birds.filter(odd)])
        wanted = range(COUNT)
        sampler = MixtureSampler([COUNT // 2] * 2, weights=[3.0, 1.0])
    with make(birds, sampler=sampler) as loader:
        came = {row[0] for row in epochs(loader, 6)}
        assert len(loader.quarantine) == 4
    assert came <= set(wanted) - set(loader.quarantine.record_keys.tolist())


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("policy", ["substitute", "raise"])
def test_a_batch_that_is_let_go_of_is_gone(birds: Manifest, policy: str) -> None:
    """Not kept by the errors it met, whose frames hold all that was under way."""
    damage(birds, range(0, COUNT, 4))
    alive: list[weakref.ref[Any]] = []
    gc.collect()
    gc.disable()
    try:
        options = {"sampler": SequentialSampler(COUNT), "prefetch": 1, "on_error": policy}
        with make(birds, **options) as loader:
            while loader.epoch == 0:
                try:
                    batch = next(iter(loader))
                except DecodeError:
                    loader.skip()
                else:
                    alive.append(weakref.ref(batch["image"]))
                    del batch
            for step in range(6):
                with contextlib.suppress(DecodeError):
                    alive.append(weakref.ref(loader.batch(step)["image"]))
            plans = [each for each in gc.get_objects() if type(each) is BatchPlan]
        assert [each for each in alive if each() is not None] == []
        assert len(plans) < 6, "no more than what is under way"
    finally:
        gc.enable()


def test_what_was_opened_is_taken_over(
    birds: Manifest, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a batch that is made again, only the stand-ins are read and decoded."""
    damage(birds, {1, 2})
    decoded = []
    decode = NvImageCodec.decode

    def decoding(self: NvImageCodec, *args: Any) -> Any:
        decoded.append(args)
        return decode(self, *args)

    monkeypatch.setattr(NvImageCodec, "decode", decoding)
    with make(birds, sampler=SequentialSampler(COUNT), batch_size=8) as loader:
        batch = loader.batch(0)
    stand_ins = [key for place, key in enumerate(batch["record_key"].tolist()) if key != place]
    assert len(stand_ins) == 2
    # Record 1 is known to be bad when it is decoded; record 2 has no header.
    assert sorted(opened) == sorted(str(path_of(birds, key)) for key in [*range(8), *stand_ins])
    assert len(decoded) == 7 + 2


def test_each_visit_draws_a_stand_in_of_its_own(birds: Manifest) -> None:
    damage(birds, {3, 6, 9})
    with make(birds) as loader:
        came = [row[0] for row in epochs(loader, 12)]
        order = loader.sampler.keys(0, 12 * COUNT).tolist()
    drawn = {
        bad: [here for here, was in zip(came, order, strict=True) if was == bad]
        for bad in (3, 6, 9)
    }
    # One of the five others of their class, drawn twelve times each, and not in step.
    assert all(len(each) == 12 and len(set(each)) >= 3 for each in drawn.values())
    assert len({tuple(each) for each in drawn.values()}) == 3
    assert len({key for each in drawn.values() for key in each}) == 5


def test_a_chain_of_bad_stand_ins_keeps_to_the_class(tmp_path: Path) -> None:
    """The class is that of the record that was to come, not of the last that failed."""
    birds = make_manifest(tmp_path, [(30, 40)] * 12, classes=2)
    damage(birds, {0, 2, 4, 6, 8})  # of class 0 there is only record 10
    with make(birds) as loader:
        rows = epochs(loader, 3)
    assert {key for key, label, _ in rows if label == 0} == {10}
    assert sum(label for _, label, _ in rows) == 18


def test_a_blank_that_is_refused_is_an_error(
    birds: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(birds, {1})
    monkeypatch.setattr("gpufeed.feed.maker.blank_image", lambda *_: b"no picture")
    message = "the blank image that replaces a bad one failed too: record 1"
    with make(birds, on_error="blank") as loader, pytest.raises(PipelineError, match=message):
        epochs(loader)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("size", "transform"),
    [
        ((2200, 3000), tf.RandomCrop(2048)),
        ((2_000_000, 1), tf.Resize((8, 8))),
        ((30_000, 20_000), tf.RandomResizedCrop(8)),
    ],
)
def test_a_blank_is_as_large_as_what_it_stands_for(
    tmp_path: Path, size: tuple[int, int], transform: tf.Transform
) -> None:
    """Or as images may be, and photos are, and decoders take them."""
    sides = {"height": [size[0]], "width": [size[1]]}
    table = pl.DataFrame(
        {"path": ["none.jpg"], "label": [0], **sides},
        schema={"path": pl.String, "label": pl.Int32, "height": pl.Int32, "width": pl.Int32},
    )
    bird = Manifest(table, tmp_path, ["bird"])
    chain = [transform, tf.ToDtype("uint8")]
    for most in (1 << 23, 1 << 30):
        options = {"on_error": "blank", "transforms": chain, "batch_size": 1, "max_pixels": most}
        with make(bird, sampler=SequentialSampler(1), **options) as loader:
            batch = loader.batch(0)
        assert not batch["image"].any()
        assert not batch["valid"][0]


def test_a_blank_is_no_larger_than_photos_are() -> None:
    """Whatever a list says of a file that is none."""
    sizes = np.array([[3000, 4000], [65535, 65535], [1, 1 << 40], [1 << 30, 3]])
    found = blank_sizes(sizes, 1 << 40)
    assert found[0].tolist() == [3000, 4000]
    assert (found.prod(axis=1) <= 1 << 24).all()
    assert (found >= 1).all()
    assert found.max() <= 65_000
    assert found[1, 0] == found[1, 1] == 4096


def test_a_user_who_runs_out_ends_with_an_error(birds: Manifest) -> None:
    damage(birds, {1})
    spares: Any = iter(())
    with make(birds, on_error=lambda _: next(spares), sampler=SequentialSampler(COUNT)) as loader:
        with pytest.raises(PipelineError, match="on_error or collate_fn raised StopIteration"):
            list(loader)
        assert loader.step == 0


def test_on_error_may_ask_for_another_batch(birds: Manifest) -> None:
    damage(birds, {1})

    def on_error(error: DecodeError) -> int:
        assert error.record_key == 1
        return int(loader.batch(2)["record_key"][0])

    with make(birds, on_error=on_error, sampler=SequentialSampler(COUNT)) as loader:
        assert rows_of(next(iter(loader)))[1][0] == 8


def test_filters_of_warnings_are_left_alone(birds: Manifest) -> None:
    damage(birds, range(0, COUNT, 2))
    before = list(warnings.filters)
    with make(birds, num_threads=4) as loader:
        epochs(loader)
    assert list(warnings.filters) == before


def test_who_is_alone_in_a_class_is_stood_in_for_by_another(tmp_path: Path) -> None:
    birds = make_manifest(tmp_path, [(30, 40)] * 8, classes=8)
    damage(birds, {5})
    with make(birds) as loader:
        rows = epochs(loader, 4)
    assert len(rows) == 32
    for key, label, _ in rows:
        assert key != 5
        assert label == key


@pytest.mark.parametrize("policy", ["substitute", "blank"])
def test_the_end_of_all_files_is_one_error(birds: Manifest, policy: str) -> None:
    damage(birds, range(COUNT))
    with make(birds, on_error=policy, max_failures=0.1) as loader:
        with pytest.raises(TooManyFailuresError, match=r"records could not be read or decoded"):
            epochs(loader)
        assert loader.step == 0
    if policy == "substitute":
        with (
            make(birds) as loader,
            pytest.raises(
                TooManyFailuresError,
                match=r"epoch 0 has no record left .*; inspect the data with",
            ),
        ):
            epochs(loader)


@pytest.mark.usefixtures("way")
def test_blank_is_black_without_targets_and_not_valid(birds: Manifest) -> None:
    points = pl.Series(
        "points", [[[20.0, 20.0, 1.0]]] * COUNT, dtype=pl.List(pl.Array(pl.Float64, 3))
    )
    birds = Manifest(birds.frame.with_columns(points), birds.root, birds.classes)
    options: dict[str, Any] = {
        "transforms": [tf.BoxCrop(), tf.Resize((16, 16)), tf.Normalize()],
        "targets": ("boxes", "points"),
        "on_error": "blank",
        "last_batch": "pad",
        "batch_size": 5,
    }
    damage(birds, {1, 11})
    with make(birds, **options) as loader:
        seen = 0
        for batch in loader:
            for place, key in enumerate(batch["record_key"].tolist()):
                if key not in (1, 11):
                    assert len(batch["boxes"][place]) == 1
                    assert batch["image"][place].std() > 0
                    continue
                seen += 1
                mean = np.array([0.485, 0.456, 0.406])
                std = np.array([0.229, 0.224, 0.225])
                black = np.broadcast_to((-mean / std)[:, None, None], (3, 16, 16))
                np.testing.assert_allclose(batch["image"][place], black, atol=1e-5)
                assert len(batch["boxes"][place]) == 0
                assert not batch["point_visible"][place].any()
                assert not batch["valid"][place]
        assert seen == 2
        loader.seek(0)
        assert sum(int(batch["valid"].sum()) for batch in loader) == COUNT - 2


def test_nobody_is_mixed_with_a_blank_picture(birds: Manifest) -> None:
    options: dict[str, Any] = {
        "transforms": [*GEOMETRY, tf.ToDtype("float32"), tf.MixUp(1.0, group=4)],
        "sampler": SequentialSampler(COUNT),
        "on_error": "blank",
    }
    with make(birds, **options) as loader:
        healthy = loader.batch(0)
    plain = {**options, "transforms": options["transforms"][:-1]}
    with make(birds, **plain) as loader:
        unmixed = loader.batch(0)
    damage(birds, {2})
    with make(birds, **options) as loader:
        mended = loader.batch(0)
    assert mended["valid"].tolist() == [True, True, False, True]
    for place in (0, 3):
        np.testing.assert_array_equal(mended["image"][place], healthy["image"][place])
    # Record 1 was to be mixed with record 2.
    np.testing.assert_allclose(mended["image"][1], unmixed["image"][1], atol=1e-6)
    assert mended["label_b"][1] == mended["label"][1]


def test_a_function_decides(birds: Manifest) -> None:
    damage(birds, {1, 2, 3})
    told: list[tuple[int, str]] = []

    def on_error(error: DecodeError) -> int | None:
        told.append((error.record_key, error.path))
        return {1: 2, 2: np.int64(10), 3: None}[error.record_key]

    with make(birds, on_error=on_error, sampler=SequentialSampler(COUNT)) as loader:
        first = loader.batch(0)
        assert first["record_key"].tolist() == [0, 10, 10, 3]
        assert first["valid"].tolist() == [True, True, True, False]
        # Each at its place, and in turn for who was to stand in for record 1.
        assert told == [(key, str(path_of(birds, key))) for key in (1, 2, 3, 2)]
        assert rows_of(next(iter(loader))) == rows_of(first)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            99,
            "on_error returned 99 for record 1; it must return a record key from 0 to 23, or None",
        ),
        ("x", "on_error returned 'x' for record 1"),
        (True, "on_error returned True for record 1"),
        (1, "on_error returned record 1 for record 1, but that record has failed at this place"),
    ],
)
def test_what_a_function_must_not_say(birds: Manifest, answer: Any, said: str) -> None:
    damage(birds, {1})
    loader = make(birds, on_error=lambda _: answer, sampler=SequentialSampler(COUNT))
    with loader, pytest.raises(ConfigError, match=said):
        next(iter(loader))


def test_a_function_may_raise(birds: Manifest) -> None:
    damage(birds, {1})

    def on_error(error: DecodeError) -> None:
        raise KeyError(error.record_key)

    with make(birds, on_error=on_error, sampler=SequentialSampler(COUNT)) as loader:
        for _ in range(2):
            with pytest.raises(KeyError, match="1"):
                next(iter(loader))
        loader.skip()
        assert rows_of(next(iter(loader)))[0][0] == 4


@pytest.mark.parametrize(
    ("allowed", "limit"), [(0, 0), (2, 2), (3, 3), (0.0, 0), (0.01, 1), (0.1, 2), (0.99, 23)]
)
def test_failures_are_counted(birds: Manifest, allowed: float, limit: int) -> None:
    bad = {1, 5, 9, 13}
    damage(birds, bad)
    with make(birds, max_failures=allowed, sampler=SequentialSampler(COUNT)) as loader:
        if limit >= len(bad):
            assert len(epochs(loader, 1)) == COUNT
            return
        with pytest.raises(TooManyFailuresError) as caught:
            epochs(loader, 1)
        assert len(caught.value.failures) == limit + 1
        assert all(isinstance(each, DecodeError) for each in caught.value.failures)
        said = (
            f"{limit + 1} records could not be read or decoded, but max_failures={allowed} allows "
        )
        assert str(caught.value).startswith(f"{said}{limit}: ")
        assert "(first record 1, 00001.jpg)" in str(caught.value)
        assert loader.step == limit


def test_alike_failures_are_told_together(birds: Manifest) -> None:
    for key in range(5):
        path_of(birds, key).unlink()
    with (
        make(birds, max_failures=4, sampler=SequentialSampler(COUNT)) as loader,
        pytest.raises(TooManyFailuresError, match=r"5 x cannot be read: No such file") as caught,
    ):
        epochs(loader, 1)
    assert str(caught.value).count("No such file") == 1


def test_failures_that_differ_in_numbers_only_are_told_together(tmp_path: Path) -> None:
    manifest = make_manifest(tmp_path, [(40 + number, 50) for number in range(6)])
    with (
        make(manifest, max_failures=5, max_pixels=1000, sampler=SequentialSampler(6)) as loader,
        pytest.raises(TooManyFailuresError) as caught,
    ):
        loader.batch(0)
    said = str(caught.value)
    assert (
        ": 6 x the image has 50 x 40 = 2,000 pixels, more than max_pixels (1,000); raise it if "
        "there is enough memory, and similar (first record 0, 00000.jpg); allow" in said
    )
    assert "more reasons" not in said
    assert said.endswith(
        "; allow more, or leave them out with Manifest.without: loader.quarantine.save() writes "
        "these, and `gpufeed check DATA --parquet FILE` every bad image"
    )


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("on_error", "skip", 'on_error is \'skip\'; it must be "raise", "substitute", "blank"'),
        ("on_error", None, "on_error is None"),
        ("max_failures", -1, "max_failures is -1; it must be the number of records that may fail"),
        ("max_failures", 1.5, "max_failures is 1.5"),
        ("max_failures", True, "max_failures is True"),
        ("max_failures", float("nan"), "max_failures is nan"),
        ("max_pixels", 0, "max_pixels is 0; it must be an integer of 1 or more"),
        ("max_pixels", 1.0, "max_pixels is 1.0"),
    ],
)
def test_arguments_are_checked(birds: Manifest, option: str, value: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make(birds, **{option: value})


def test_the_list_is_written_and_read_back(birds: Manifest, tmp_path: Path) -> None:
    damage(birds, {2, 9})
    with make(birds, sampler=SequentialSampler(COUNT)) as loader:
        epochs(loader)
        loader.quarantine.save(tmp_path / "bad.parquet")
    frame = pl.read_parquet(tmp_path / "bad.parquet")
    assert frame.drop("reason").rows() == [(2, "00002.jpg", 0, ""), (9, "00009.jpg", 2, "")]
    assert frame["reason"][0].startswith("the image is damaged")
    good = birds.without(tmp_path / "bad.parquet")
    assert birds.without(loader.quarantine).frame.equals(good.frame)
    assert (
        good.frame["path"].to_list()
        == birds.filter(~pl.col("path").is_in(["00002.jpg", "00009.jpg"])).frame["path"].to_list()
    )
    assert len(birds.without(frame.with_columns(fails=pl.Series([True, False])))) == COUNT - 1
    with make(good, on_error="raise") as loader:
        assert len(epochs(loader, 1)) == 20
    with pytest.raises(ManifestError, match="names every image"):
        birds.without(birds.frame)
    with pytest.raises(ManifestError, match="has no text column 'path'"):
        birds.without(frame.drop("path"))
    with pytest.raises(ManifestError, match="is not a valid Parquet file"):
        birds.without(path_of(birds, 0))
    with pytest.raises(
        ConfigError, match=r"bad must be a loader's quarantine, .*, not builtins.list"
    ):
        birds.without(["00000.jpg"])


def test_with_raise_failures_are_listed_too(birds: Manifest) -> None:
    damage(birds, {2, 9})
    with make(birds, on_error="raise", sampler=SequentialSampler(COUNT)) as loader:
        while loader.epoch == 0:
            try:
                next(iter(loader))
            except DecodeError:
                loader.skip()
        assert loader.quarantine.record_keys.tolist() == [2, 9]
        # What was mended since comes again.
        path_of(birds, 2).write_bytes(jpeg(picture(50, 60, seed=2)))
        assert loader.batch(0)["record_key"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("policy", ["substitute", "blank"])
@pytest.mark.parametrize("pixels", [True, "pixels"])
def test_the_ledger_holds_with_bad_files(birds: Manifest, policy: str, pixels: Any) -> None:
    damage(birds, {2, 9, 17})
    ledgers = []
    for shards in (1, 2):
        merged: Ledger | None = None
        for number in range(shards):
            options = {"shard": ShardOptions(number, shards), "batch_size": 4 // shards}
            with make(birds, on_error=policy, ledger=pixels, **options) as loader:
                list(loader)
            assert loader.ledger is not None
            if merged is None:
                merged = loader.ledger
            else:
                merged.include(loader.ledger)
        assert merged is not None
        report = merged.report(0)
        assert (report.right, report.deliveries, report.records) == (True, COUNT, COUNT)
        ledgers.append(merged)
    assert ledgers[0].digest(0) == ledgers[1].digest(0)


@pytest.mark.usefixtures("way")
def test_large_pictures_are_refused_before_they_are_opened(birds: Manifest) -> None:
    """By the manifest before the file is opened, and by the header before memory is set aside."""
    frame = birds.frame.with_columns(
        width=pl.when(pl.int_range(pl.len()) == 1).then(20_000).otherwise("width").cast(pl.Int32),
        height=pl.when(pl.int_range(pl.len()) == 1).then(14_000).otherwise("height").cast(pl.Int32),
    )
    birds = Manifest(frame, birds.root, birds.classes)
    path_of(birds, 1).unlink()
    lying = bytearray(path_of(birds, 2).read_bytes())
    place = lying.index(b"\xff\xc0") + 5
    lying[place : place + 4] = b"\xff\xff\xff\xff"
    path_of(birds, 2).write_bytes(lying)
    with make(birds, sampler=SequentialSampler(COUNT)) as loader:
        assert [row[1] for row in epochs(loader, 1)] == birds.frame["label"].to_list()
        found = {failure.record_key: failure.reason for failure in loader.quarantine}
    assert found[1] == (
        "the image has 20000 x 14000 = 280,000,000 pixels, more than max_pixels (134,217,728); "
        "raise it if there is enough memory"
    )
    assert found[2].startswith(
        "the image is 65535 x 65535 (width x height), but the manifest gives"
    )
    with make(birds, sampler=SequentialSampler(COUNT), on_error="blank") as loader:
        assert loader.batch(0)["valid"].tolist() == [True, False, False, True]


@pytest.mark.usefixtures("way")
def test_files_far_too_long_are_not_read(birds: Manifest) -> None:
    os.truncate(path_of(birds, 1), 4 << 30)  # sparse: it takes no room
    with make(birds, sampler=SequentialSampler(COUNT)) as loader:
        epochs(loader, 1)
        (failure,) = loader.quarantine
    assert re.fullmatch(
        r"cannot be read: the file has 4,294,967,296 bytes; the limit is 16,[\d,]{7}",
        failure.reason,
    )


def test_a_file_that_goes_bad_while_the_run_goes_on(birds: Manifest) -> None:
    with make(birds, prefetch=1) as loader:
        healthy = epochs(loader, 1)
        # One of the second epoch's last batch, which nothing has read ahead yet.
        damage(birds, loader.sampler.keys(2 * COUNT - 1, 2 * COUNT).tolist())
        second = epochs(loader, 1)
    with make(birds) as loader:
        assert epochs(loader, 2)[COUNT:] == second
    assert {row[0] for row in healthy} == set(range(COUNT))


@pytest.mark.parametrize("reader", ["folder", "table"])
def test_unreadable_pictures_can_be_left_out_from_the_start(tmp_path: Path, reader: str) -> None:
    make_manifest(tmp_path / "a", [(30, 40)] * 4)
    make_manifest(tmp_path / "b", [(30, 40)] * 4)
    (tmp_path / "a" / "00001.jpg").write_bytes(b"")
    (tmp_path / "b" / "00003.jpg").unlink()
    (tmp_path / "b" / "00003.jpg").mkdir()
    names = [f"{folder}/{number:05}.jpg" for folder in "ab" for number in range(4)]
    table = pl.DataFrame({"path": names, "label": [name[0] for name in names]})
    if reader == "folder":
        # A folder is no image to it, only what it holds.
        (tmp_path / "b" / "00003.jpg").rmdir()
        (tmp_path / "b" / "00003.jpg").write_bytes(b"GIF89a")
        reading: Callable[..., Manifest] = partial(read_folder, tmp_path)
    else:
        reading = partial(read_table, table, root=tmp_path)

    with pytest.raises(
        ManifestError, match=r'2 of 8 images .* leave them out with on_bad_image="drop"'
    ):
        reading()
    found = reading(on_bad_image="drop")
    assert found.frame["path"].to_list() == [n for n in names if n not in (names[1], names[7])]
    assert found.repairs == {"images_dropped": 2}
    with pytest.raises(ConfigError, match='on_bad_image is \'skip\'; it must be "raise" or "drop"'):
        reading(on_bad_image="skip")
