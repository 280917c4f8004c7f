"""The loader's laws: a batch is a function of its number, and of nothing else."""

from __future__ import annotations

import contextlib
import copy
import gc
import hashlib
import json
import pickle
import re
import threading
import typing
from concurrent.futures import Future
from typing import Any

import grain
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpufeed
from gpufeed import (
    ConfigError,
    EpochsExhausted,
    IndexSampler,
    Loader,
    Manifest,
    SequentialSampler,
    ShardOptions,
    StateError,
    StateMismatchError,
    WeightedSampler,
)
from gpufeed import transforms as tf
from gpufeed._util.spans import Spans
from gpufeed.feed.patience import Patience
from gpufeed.source.threads import Threaded
from tests.support.loaders import CHAIN, digest, make
from tests.support.scripts import run_scripts


def by_record(batch: dict[str, Any]) -> dict[tuple[int, int], str]:
    """A digest of each image, by epoch and record."""
    return {
        (int(epoch), int(key)): hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest()
        for epoch, key, image in zip(
            batch["epoch"], batch["record_key"], batch["image"], strict=True
        )
    }


@pytest.fixture(scope="module")
def two_epochs(pictures: Manifest) -> list[str]:
    """Digests of the batches of two epochs, made one after the other."""
    with make(pictures) as loader:
        return [digest(batch) for _ in range(2) for batch in loader]


# ------------------------------------------------------------------ the main law


def test_an_epoch_is_iterated_at_a_time(pictures: Manifest, two_epochs: list[str]) -> None:
    with make(pictures) as loader:
        assert len(loader) == 50 // 8
        assert len(two_epochs) == 2 * len(loader)
        first = list(loader)
        assert [set(batch["epoch"].tolist()) for batch in first] == [{0}] * len(loader)
        assert (loader.step, loader.epoch) == (len(loader), 1)
        second = list(loader)
        assert [set(batch["epoch"].tolist()) for batch in second] == [{1}] * len(loader)
    keys = [batch["record_key"].tolist() for batch in first]
    assert len(set(sum(keys, []))) == 48  # noqa: RUF017 - six short lists
    assert len(set(two_epochs)) == len(two_epochs)


def test_any_batch_can_be_made_from_its_number(pictures: Manifest, two_epochs: list[str]) -> None:
    with make(pictures) as loader:
        for step in (11, 0, 6, 5, 5):
            assert digest(loader.batch(step)) == two_epochs[step]
        assert loader.step == 0


def test_single_batches_do_not_disturb_iterating(pictures: Manifest, two_epochs: list[str]) -> None:
    with make(pictures) as loader:
        seen = []
        for batch in loader:
            seen.append(digest(batch))
            assert digest(loader.batch(9)) == two_epochs[9]
    assert seen == two_epochs[: len(loader)]


@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("prefetch", [1, 2, 5])
def test_threads_and_prefetch_change_nothing(
    pictures: Manifest, two_epochs: list[str], num_threads: int, prefetch: int
) -> None:
    with make(pictures, num_threads=num_threads, prefetch=prefetch) as loader:
        assert [digest(batch) for _ in range(2) for batch in loader] == two_epochs


@pytest.mark.parametrize("batch_size", [1, 5, 16, 50])
def test_a_record_looks_the_same_in_batches_of_any_size(
    pictures: Manifest, batch_size: int
) -> None:
    with make(pictures) as loader:
        reference = {key: seen for batch in loader for key, seen in by_record(batch).items()}
    with make(pictures, batch_size=batch_size, last_batch="partial") as loader:
        others = {key: seen for batch in loader for key, seen in by_record(batch).items()}
    assert len(others) == 50
    assert {key: others[key] for key in reference} == reference


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("last_batch", ["drop", "pad", "partial"])
def test_shards_together_are_the_whole(pictures: Manifest, world: int, last_batch: str) -> None:
    with make(pictures, batch_size=12, last_batch=last_batch) as loader:
        alone = [by_record(batch) for batch in loader]
    shards = []
    for index in range(world):
        shard = ShardOptions(index, world)
        options = {"batch_size": 12 // world, "shard": shard, "last_batch": last_batch}
        with make(pictures, **options) as loader:
            shards.append([by_record(batch) for batch in loader])
    for step, whole in enumerate(alone):
        together: dict[tuple[int, int], str] = {}
        for shard_batches in shards:
            if step < len(shard_batches):
                together |= shard_batches[step]
        assert together == whole


def test_grains_shards_are_taken_as_ours(pictures: Manifest) -> None:
    """What becomes of an epoch's end is `last_batch`'s matter."""
    sharding = grain.sharding
    for theirs, ours in (
        (sharding.NoSharding(), ShardOptions()),
        (sharding.ShardByJaxProcess(drop_remainder=True), ShardOptions()),
        (sharding.ShardOptions(1, 3, drop_remainder=True), ShardOptions(1, 3)),
    ):
        for last_batch in ("drop", "pad"):
            options = {"batch_size": 4, "last_batch": last_batch}
            with (
                make(pictures, **options, shard=theirs) as one,
                make(pictures, **options, shard=ours) as other,
            ):
                assert len(one) == len(other)
                last = len(one) - 1
                assert digest(one.batch(last)) == digest(other.batch(last))


def test_seeds_and_epochs_change_order_and_pictures(pictures: Manifest) -> None:
    with make(pictures) as loader:
        plain = loader.batch(0)
    with make(pictures, sampler=IndexSampler(50, shuffle=True, seed=4)) as loader:
        other = loader.batch(0)
    assert plain["record_key"].tolist() != other["record_key"].tolist()
    with make(pictures, sampler=SequentialSampler(50, seed=3)) as loader:
        epochs = [loader.batch(step) for step in (0, len(loader))]
    assert epochs[0]["record_key"].tolist() == epochs[1]["record_key"].tolist()
    same = [np.array_equal(a, b) for a, b in zip(*(e["image"] for e in epochs), strict=True)]
    assert not any(same)


# --------------------------------------------------------------- state and places


@pytest.fixture(scope="module")
def all_endings(pictures: Manifest) -> dict[str, list[dict[tuple[int, int], str]]]:
    """What two epochs hand out, by ending and step."""
    found = {}
    for last_batch in ("drop", "pad", "partial"):
        with make(pictures, last_batch=last_batch) as loader:
            found[last_batch] = [by_record(loader.batch(step)) for step in range(2 * len(loader))]
    return found


@settings(max_examples=12)
@given(
    stop=st.integers(0, 12),
    prefetch=st.integers(1, 4),
    world=st.sampled_from([1, 2, 4]),
    last_batch=st.sampled_from(["drop", "pad", "partial"]),
)
def test_a_stopped_run_goes_on_exactly(
    pictures: Manifest,
    all_endings: dict[str, list[dict[tuple[int, int], str]]],
    stop: int,
    prefetch: int,
    world: int,
    last_batch: str,
) -> None:
    """Stopped after any batch, saved as JSON, resumed at any number of shards: exactly the rest."""
    options: dict[str, Any] = {"batch_size": 8, "last_batch": last_batch}
    whole = all_endings[last_batch]
    steps = len(whole)
    with make(pictures, **options, prefetch=prefetch) as loader:
        for _ in range(min(stop, steps)):
            next(iter(loader))
        saved = loader.get_state()
    rest: list[dict[tuple[int, int], str]] = [{} for _ in whole]
    for index in range(world):
        options["batch_size"] = 8 // world
        with make(pictures, **options, shard=ShardOptions(index, world)) as loader:
            loader.set_state(saved)
            assert loader.step == stop
            while loader.epoch < 2:
                for step, batch in zip(range(loader.step, steps), loader, strict=False):
                    rest[step] |= by_record(batch)
    assert rest[stop:] == whole[stop:]
    assert not any(rest[:stop])


def test_a_state_is_small_and_plain(pictures: Manifest) -> None:
    with make(pictures) as loader:
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        state = loader.state_dict()
        # Batches made ahead do not count.
        assert state["records"] == 3 * 8
        assert set(state) == {"version", "records", "fingerprints", "quarantine"}
        assert set(state["fingerprints"]) == {"manifest", "sampler", "transforms", "opener"}
        assert json.loads(loader.get_state()) == state
        for _ in iterator:
            pass
        # At an epoch's end, the records that "drop" left out are passed as well.
        assert loader.state_dict()["records"] == 50


def test_a_state_can_be_edited(pictures: Manifest, two_epochs: list[str]) -> None:
    with make(pictures) as loader:
        loader.load_state_dict({**loader.state_dict(), "records": 50 + 16})
        assert digest(next(iter(loader))) == two_epochs[len(loader) + 2]


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ("manifest", {}),
        ("sampler", {"sampler": IndexSampler(50, shuffle=True, seed=4)}),
        ("sampler", {"sampler": SequentialSampler(50, seed=3)}),
        ("transforms", {"transforms": [tf.RandomResizedCrop(23), *CHAIN[1:]]}),
        ("opener", {"opener": "graph"}),
    ],
)
def test_a_state_of_something_else_is_refused(
    pictures: Manifest, change: str, options: dict[str, Any]
) -> None:
    state = make(pictures).state_dict()
    manifest = pictures
    if change == "manifest":
        frame = pictures.frame.with_columns(label=(pictures.frame["label"] + 1) % 3)
        manifest = Manifest(frame, pictures.root, pictures.classes)
    loader = make(manifest, **options)
    message = rf"loader's {change}: {change}.* was .*, is .*pass ignore=\('{change}',\)"
    with pytest.raises(StateMismatchError, match=message) as raised:
        loader.load_state_dict(state)
    here = loader.state_dict()["fingerprints"]
    assert raised.value.changed == {change: (state["fingerprints"][change], here[change])}
    assert loader.step == 0
    loader.load_state_dict(state, ignore=[change])


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"version": 2}, "the state has version 2, and this gpufeed reads version 1; load"),
        ({"records": 10**18}, "'records' is 1000.*: step is .*; there are batches 0 to"),
        ({"records": -1}, "'records' is -1; it must be an integer of 0 or more"),
        ({"records": 10**30}, "'records' is 1000.*: step is .*; there are batches 0 to"),
        ({"records": "8"}, "'records' is '8'"),
        ({"records": 7}, "no batch starts after 7 records"),
        ({"fingerprints": None}, "'fingerprints' is None; it must map manifest, sampler, "),
        ({"version": 0}, "the state has version 0, and this gpufeed reads version 1"),
        ({"records": 49}, "no batch starts after 49 records"),
        ({"fingerprints": {}}, "'fingerprints' is {}; it must map manifest, sampler, "),
    ],
)
def test_a_malformed_state_is_refused(
    pictures: Manifest, edit: dict[str, Any], message: str
) -> None:
    loader = make(pictures)
    with pytest.raises(StateError, match=message):
        loader.load_state_dict({**loader.state_dict(), **edit})
    assert loader.step == 0


def test_a_new_column_is_named(pictures: Manifest) -> None:
    frame = pictures.frame.with_columns(age=pl.lit(7))
    more = Manifest(frame, pictures.root, pictures.classes)
    told = r"manifest: manifest was \w+, is \w+; the manifest's column 'age' is new; the next"
    with pytest.raises(StateMismatchError, match=told):
        make(more).load_state_dict(make(pictures).state_dict())
    with pytest.raises(StateMismatchError, match=r"manifest was \w+, is \w+; the next"):
        make(pictures).load_state_dict(make(more).state_dict())


def test_a_difference_is_told_from_what_to_what(pictures: Manifest) -> None:
    state = make(pictures).state_dict()
    other = make(
        pictures,
        sampler=IndexSampler(50, shuffle=True, seed=4),
        transforms=[tf.RandomResizedCrop(23), *CHAIN[1:]],
    )
    with pytest.raises(StateMismatchError) as raised:
        other.load_state_dict(state)
    told = str(raised.value)
    assert (
        "loader's sampler and transforms: sampler IndexSampler.seed was 3, is 4; "
        "transforms[0] RandomResizedCrop.size was [24,24], is [23,23]; the next batches" in told
    )


def test_what_differs_is_told_as_deep_as_it_is(pictures: Manifest) -> None:
    """Of views, of transforms in transforms, and of lists too."""

    def feed(p: float, weight: int) -> Loader:
        inside = tf.RandomApply([tf.RandomInvert(), tf.RandomSolarize(128, p)])
        views = tf.Views([CHAIN, [tf.Resize((9, 9)), inside, CHAIN[-1]]])
        sampler = WeightedSampler([1] * 49 + [weight])
        return make(pictures, transforms=views, sampler=sampler)

    state = feed(0.5, 2).state_dict()
    with pytest.raises(StateMismatchError) as raised:
        feed(0.25, 3).load_state_dict(state)
    assert "sampler WeightedSampler.weights[49] was 2.0, is 3.0" in str(raised.value)
    place = "transforms[0] Views.views[1][1] RandomApply.transforms[1] RandomSolarize.p"
    assert f"; {place} was 0.5, is 0.25; the next" in str(raised.value)


def test_what_differs_in_long_lists_is_told_in_part(pictures: Manifest) -> None:
    def refused(was: Any, here: Any) -> str:
        state = make(pictures, sampler=was, batch_size=2).state_dict()
        with pytest.raises(StateMismatchError) as raised:
            make(pictures, sampler=here, batch_size=2).load_state_dict(state)
        return str(raised.value)

    told = refused(np.arange(40), np.arange(40)[::-1])
    assert told.count("SubsetSampler.record_keys[") == 8
    assert "; 32 further values of sampler SubsetSampler.record_keys was [8,9," in told
    assert "record_keys was [0,1,2], is [0,1]" in refused([0, 1, 2], [0, 1])
    told = refused(np.arange(2000) % 50, np.arange(3000) % 50)
    assert "record_keys.count was 2000, is 3000" in told or '"count":2000' in told
    same = make(pictures, sampler=np.arange(2000) % 50)
    same.load_state_dict(make(pictures, sampler=np.arange(2000) % 50).state_dict())


def test_a_transform_more_or_less_is_told_with_all(pictures: Manifest) -> None:
    state = make(pictures).state_dict()
    shorter = make(pictures, transforms=[CHAIN[0], CHAIN[2]])
    was, here = (each["fingerprints"]["transforms"] for each in (state, shorter.state_dict()))
    with pytest.raises(StateMismatchError, match=re.escape(f"transforms was {was}, is {here};")):
        shorter.load_state_dict(state)


def test_only_what_is_named_may_have_changed(pictures: Manifest) -> None:
    state = make(pictures).state_dict()
    other = make(
        pictures,
        sampler=IndexSampler(50, shuffle=True, seed=4),
        transforms=[tf.RandomResizedCrop(23), *CHAIN[1:]],
    )
    with pytest.raises(
        StateMismatchError, match="state does not match this loader's transforms: "
    ) as raised:
        other.load_state_dict(state, ignore=["sampler"])
    assert set(raised.value.changed) == {"transforms"}


def test_the_end_is_a_place_to_go_on_from(pictures: Manifest) -> None:
    sampler = IndexSampler(50, shuffle=True, seed=3, num_epochs=2)
    with make(pictures, sampler=sampler) as loader:
        loader.seek(12)
        state = loader.state_dict()
        assert state["records"] == 100
    loader = make(pictures, sampler=sampler)
    loader.load_state_dict(state)
    with pytest.raises(EpochsExhausted):
        iter(loader)


def test_transforms_without_a_fingerprint_are_refused_at_once(pictures: Manifest) -> None:
    class Lost(tf.RandomHorizontalFlip):
        def __init__(self) -> None:
            super().__init__()
            self.table = np.zeros(3)

    with pytest.raises(ConfigError, match="Lost has a setting that cannot be fingerprinted"):
        make(pictures, transforms=[tf.RandomResizedCrop(24), Lost()])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the state is not valid JSON: Expecting value"),
        (b'{"version": 1, "rec', "the state is not valid JSON: Unterminated string"),
        (b"\xff\xff", "the state is not valid JSON: 'utf-8' codec can't decode"),
        (b"[]", r"this is not the state of a gpufeed loader: \[\]$"),
        (b"{}", "this is not the state of a gpufeed loader: {}$"),
        (b'{"version": 1}', "the state's 'records' is None; it must be an integer of 0 or more"),
    ],
)
def test_what_is_no_state_is_refused(pictures: Manifest, text: bytes, message: str) -> None:
    with pytest.raises(StateError, match=message):
        make(pictures).set_state(text)


def test_ignore_names_what_there_is(pictures: Manifest) -> None:
    loader = make(pictures)
    with pytest.raises(
        StateError, match=r"ignore has \['seed'\]; it may have names from \['manifest', "
    ):
        loader.load_state_dict(loader.state_dict(), ignore=["seed"])


def test_any_step_can_be_gone_to(pictures: Manifest, two_epochs: list[str]) -> None:
    with make(pictures) as loader:
        next(iter(loader))
        loader.skip(4)
        assert [digest(batch) for batch in loader] == two_epochs[5 : len(loader)]
        loader.seek(1)
        assert [digest(batch) for batch in loader] == two_epochs[1 : len(loader)]
        loader.seek(10**10)
        assert next(iter(loader))["epoch"][0] == 10**10 // len(loader)
        with pytest.raises(IndexError, match="step is 100000000000; there are batches 0 to"):
            loader.seek(10**11)
        with pytest.raises(IndexError, match=r"no batch 10{20}: epochs end at number 4294967295"):
            loader.batch(10**20)
        with pytest.raises(IndexError, match="step is -1"):
            loader.seek(-1)


def test_seeking_keeps_an_iteration_within_its_epoch(
    pictures: Manifest, two_epochs: list[str]
) -> None:
    with make(pictures) as loader:
        seen = []
        for batch in loader:
            seen.append(digest(batch))
            if loader.step == 2:
                loader.skip(2)
        assert seen == [two_epochs[step] for step in (0, 1, 4, 5)]
        iterator = iter(loader)
        assert digest(next(iterator)) == two_epochs[6]
        loader.seek(2 * len(loader))
        with pytest.raises(StopIteration):
            next(iterator)
        iterator = iter(loader)
        next(iterator)
        loader.seek(3)
        with pytest.raises(ConfigError, match=r"seek\(\) or load_state_dict\(\) to another epoch"):
            next(iterator)


@pytest.mark.parametrize("prefetch", [1, 2, 4])
@pytest.mark.parametrize("target", [0, 1, 2, 3, 5])
def test_an_iteration_goes_on_from_wherever_it_is_sent(
    pictures: Manifest, two_epochs: list[str], target: int, prefetch: int
) -> None:
    """However many batches were made ahead, and read ahead of those."""
    with make(pictures, prefetch=prefetch) as loader:
        iterator = iter(loader)
        assert [digest(next(iterator)) for _ in range(2)] == two_epochs[:2]
        loader.seek(target)
        assert [digest(batch) for batch in iterator] == two_epochs[target:6]


def test_epochs_can_be_set_as_torchs_samplers_want_it(
    pictures: Manifest, two_epochs: list[str]
) -> None:
    with make(pictures) as loader:
        for epoch in range(2):
            loader.set_epoch(epoch)
            assert [digest(batch) for batch in loader] == two_epochs[6 * epoch : 6 * epoch + 6]
        loader.seek(8)
        loader.set_epoch(1)
        assert loader.step == 8, "a resumed epoch goes on"
        loader.set_epoch(0)
        assert loader.step == 0
        loader.seek(8)
        next(iter(loader))
        loader.set_epoch(1)
        assert loader.step == 6, "an epoch that was left early begins anew"
        loader.set_epoch(1)
        assert digest(next(iter(loader))) == two_epochs[6]


def test_an_iteration_begins_with_its_first_batch(
    pictures: Manifest, two_epochs: list[str]
) -> None:
    """The epoch may be set after the iterator is made, as trainers do."""
    with make(pictures) as loader:
        iterator = iter(loader)
        loader.set_epoch(1)
        assert [digest(batch) for batch in iterator] == two_epochs[6:]


def test_steps_are_integers_of_any_kind(pictures: Manifest) -> None:
    with make(pictures) as loader:
        loader.seek(np.int64(3))
        assert json.loads(loader.get_state())["records"] == 24
        assert digest(loader.batch(jnp.int32(3))) == digest(loader.batch(3))
        for wrong in (1.5, "3", True, np.True_):
            with pytest.raises(TypeError):
                loader.seek(wrong)
            with pytest.raises(TypeError):
                loader.batch(wrong)


# -------------------------------------------------------------------- ends of epochs


def test_pad_marks_what_is_no_record(pictures: Manifest) -> None:
    with make(pictures, last_batch="pad", batch_size=16) as loader:
        batches = list(loader)
    assert [batch["image"].shape[0] for batch in batches] == [16] * 4
    assert [int(batch["valid"].sum()) for batch in batches] == [16, 16, 16, 2]
    keys = np.concatenate([batch["record_key"][batch["valid"]] for batch in batches])
    assert sorted(keys.tolist()) == list(range(50))


def test_partial_hands_out_what_is_left(pictures: Manifest) -> None:
    with make(pictures, last_batch="partial", batch_size=16) as loader:
        assert [len(batch["label"]) for batch in loader] == [16, 16, 16, 2]
        assert "valid" not in loader.batch(3)


def test_a_shard_without_a_rest_has_a_batch_less(pictures: Manifest) -> None:
    options = {"last_batch": "partial", "batch_size": 16}
    with make(pictures, **options, shard=ShardOptions(2, 3)) as loader:
        assert [len(batch["label"]) for batch in loader] == [16]
        assert loader.epoch == 1
        assert [len(batch["label"]) for batch in loader] == [16]
        with pytest.raises(IndexError, match="this shard has no records in batch 1"):
            loader.batch(1)


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_shard_without_a_rest_goes_on_past_it(pictures: Manifest, stop: int) -> None:
    """A loop left early, with the batches of two epochs under way: none is lost or comes twice."""
    options = {"last_batch": "partial", "batch_size": 8, "shard": ShardOptions(2, 3)}
    with make(pictures, **options, prefetch=4) as loader:
        wanted = [digest(loader.batch(step)) for step in (0, 1, 3, 4, 6, 7)]
        seen: list[str] = []
        while loader.epoch < 3:
            for batch in loader:
                seen.append(digest(batch))
                if len(seen) == stop:
                    break
    assert seen == wanted


def test_a_finite_sampler_ends(pictures: Manifest, two_epochs: list[str]) -> None:
    sampler = IndexSampler(50, shuffle=True, seed=3, num_epochs=2)
    with make(pictures, sampler=sampler, prefetch=5) as loader:
        assert [digest(batch) for _ in range(2) for batch in loader] == two_epochs
        with pytest.raises(EpochsExhausted, match=r"all 2 epoch\(s\) .* num_epochs=None"):
            iter(loader)
        loader.seek(11)
        assert [digest(batch) for batch in loader] == two_epochs[11:]


def test_a_run_shorter_than_the_prefetch_works(pictures: Manifest, two_epochs: list[str]) -> None:
    sampler = IndexSampler(50, shuffle=True, seed=3, num_epochs=1)
    with make(pictures, sampler=sampler, prefetch=9) as loader:
        loader.seek(5)
        assert [digest(batch) for batch in loader] == two_epochs[5:6]
        loader.seek(0)
        assert [digest(batch) for batch in loader] == two_epochs[:6]


# ---------------------------------------------------------------------- life and death


def test_a_loop_left_early_reads_no_more_and_goes_on(
    pictures: Manifest, two_epochs: list[str], opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    start = threading.Thread.start
    monkeypatch.setattr(
        threading.Thread, "start", lambda thread: started.append(thread.name) or start(thread)
    )

    def reads_no_more() -> bool:
        """Whether no more is read than a loop that goes on would have begun."""
        loader._cursor._prefetcher._thread.submit(int).result(60)
        ahead = 2 * loader._cursor._prefetcher._prefetch + 1
        return len(opened) <= (loader.step + ahead) * 8

    before = set(threading.enumerate())
    loader = make(pictures)
    for batch in loader:
        assert digest(batch) == two_epochs[0]
        break
    assert reads_no_more()
    with contextlib.suppress(ZeroDivisionError):
        for batch in loader:
            assert digest(batch) == two_epochs[1]
            _ = 1 / 0
    del batch
    assert reads_no_more()
    assert [digest(batch) for batch in loader] == two_epochs[2 : len(loader)]
    assert reads_no_more()
    assert digest(next(iter(loader))) == two_epochs[len(loader)]
    assert len(set(started)) == len(started), "an epoch takes the threads of the one before"
    loader.close()
    assert digest(next(iter(loader))) == two_epochs[len(loader) + 1]
    loader.close()
    assert set(threading.enumerate()) <= before


def test_a_loader_that_is_dropped_ends_its_threads(pictures: Manifest) -> None:
    before = set(threading.enumerate())
    loader = make(pictures)
    iterator = iter(loader)
    next(iterator)
    mine = set(threading.enumerate()) - before
    assert mine
    del loader, iterator
    gc.collect()
    for thread in mine:
        thread.join(timeout=60)
    assert not mine & set(threading.enumerate())


def test_a_batch_broken_off_is_made_again(
    pictures: Manifest, two_epochs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C before DALI's outputs were taken: no batch may then pass for another."""
    from nvidia.dali import Pipeline

    share, pressed = Pipeline.share_outputs, threading.Event()

    def interrupted(self: Any, *rest: Any) -> Any:
        if pressed.is_set():
            pressed.clear()
            raise KeyboardInterrupt
        return share(self, *rest)

    monkeypatch.setattr(Pipeline, "share_outputs", interrupted)
    with make(pictures) as loader:
        iterator = iter(loader)
        assert [digest(next(iterator)) for _ in range(2)] == two_epochs[:2]
        pressed.set()
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
        assert [digest(batch) for batch in loader] == two_epochs[2 : len(loader)]
        pressed.set()
        with pytest.raises(KeyboardInterrupt):
            loader.batch(4)
        assert digest(loader.batch(5)) == two_epochs[5]


def test_an_iteration_goes_on_after_an_error(
    pictures: Manifest, two_epochs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(pictures) as loader:
        plan = loader._planner.plan

        def broken(step: int) -> Any:
            if step == 2:
                raise ZeroDivisionError("in a user's transform")
            return plan(step)

        monkeypatch.setattr(loader._planner, "plan", broken)
        iterator = iter(loader)
        seen = [digest(next(iterator)) for _ in range(2)]
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                next(iterator)
            assert loader.step == 2
        loader.skip()
        seen += [digest(batch) for batch in iterator]
        assert seen == [two_epochs[step] for step in (0, 1, 3, 4, 5)]


def test_a_batch_that_is_not_handed_over_is_not_passed(
    pictures: Manifest, two_epochs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(pictures) as loader:
        iterator = iter(loader)
        next(iterator)
        with monkeypatch.context() as patch:

            def failing(*_: object) -> None:
                raise ConfigError("does not fit")

            patch.setattr(type(loader._adapter), "images", failing)
            with pytest.raises(ConfigError, match="does not fit"):
                next(iterator)
        assert loader.step == 1
        assert [digest(batch) for batch in iterator] == two_epochs[1:6]


def test_two_threads_share_one_iteration(pictures: Manifest, two_epochs: list[str]) -> None:
    seen: list[str] = []
    with make(pictures) as loader:
        iterator = iter(loader)
        threads = [
            threading.Thread(target=lambda: seen.extend(digest(batch) for batch in iterator))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(seen) == sorted(two_epochs[:6])


def test_a_loader_is_made_of_what_can_be_pickled(pictures: Manifest) -> None:
    """The loader itself cannot: it belongs to its process."""
    with make(pictures) as loader:
        for way in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(ConfigError, match="make it in the process that uses it, from a"):
                way(loader)
        parts = pickle.loads(pickle.dumps((pictures, loader.sampler, CHAIN)))  # noqa: S301
        manifest, sampler, transforms = parts
        with make(manifest, sampler=sampler, transforms=transforms) as again:
            assert digest(again.batch(3)) == digest(loader.batch(3))


def test_reading_ahead_may_be_ended_on_its_own_thread() -> None:
    """As the garbage collector does, which runs on any thread."""
    from gpufeed.feed.prefetch import Interrupted, Prefetcher

    ended = threading.Event()

    class Maker:
        def open(self) -> None:
            pass

        def reader(self) -> Threaded:
            return Threaded(gpufeed.MemorySource([]))

        def patience(self, step: int) -> Patience:
            return Patience(step, gpufeed.MemorySource([]), None, Spans())

        def prepare(self, *_: Any) -> Future[Any]:
            prefetcher.pause()
            prefetcher.interrupt()
            ended.set()
            return Future()

    prefetcher = Prefetcher(Maker(), lambda step: iter([step]), 1)
    with pytest.raises(Interrupted):
        prefetcher.take(0)
    assert ended.wait(60)
    prefetcher.close()


def test_a_later_iteration_ends_an_earlier_one(pictures: Manifest, two_epochs: list[str]) -> None:
    with make(pictures) as loader:
        first = iter(loader)
        next(first)
        second = iter(loader)
        assert digest(next(second)) == two_epochs[1]
        with pytest.raises(ConfigError, match="this iteration was ended by a later one"):
            next(first)
        assert digest(next(second)) == two_epochs[2]


def test_two_loaders_go_side_by_side(pictures: Manifest, two_epochs: list[str]) -> None:
    with make(pictures) as one, make(pictures) as other:
        for step, (a, b) in enumerate(zip(one, other, strict=True)):
            assert digest(a) == digest(b) == two_epochs[step]


def test_the_interpreter_ends(pictures: Manifest) -> None:
    """With batches under way, whatever ends it, and no word on stderr but the program's own."""
    begun = "loader = make(manifest)\niterator = iter(loader)\nnext(iterator)\n"
    endings = {"pass": 0, "held = iter(loader); raise SystemExit(3)": 3, "1 / 0": 1}
    done = run_scripts(pictures, [begun + ending for ending in endings])
    for (ending, code), ran in zip(endings.items(), done, strict=True):
        assert ran.returncode == code, ran.stderr
        assert ("ZeroDivisionError" in ran.stderr) == (ending == "1 / 0")
        assert ending == "1 / 0" or not ran.stderr


# ------------------------------------------------------------------- names and figures


def test_rows_are_those_of_the_batch(pictures: Manifest) -> None:
    with make(pictures) as loader:
        batch = loader.batch(2)
        rows = loader.rows(batch)
    assert rows["path"].to_list() == [f"{key:05}.jpg" for key in batch["record_key"]]
    assert rows["label"].to_list() == batch["label"].tolist()


def test_the_last_pass_is_counted(pictures: Manifest) -> None:
    with make(pictures, last_batch="pad", batch_size=16) as loader:
        assert loader.stats == gpufeed.Stats(0, 0, 0.0, 0.0, steps_in_epoch=4)
        assert (loader.stats.images_per_second, loader.stats.waiting_share) == (0.0, 0.0)
        list(loader)
        stats = loader.stats
    assert (stats.batches, stats.images) == (4, 50)
    assert 0 < stats.waited <= stats.seconds
    assert 0 < stats.waiting_share <= 1
    assert stats.images_per_second == 50 / stats.seconds


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_threads": 0}, ConfigError, "num_threads is 0; it must be an integer of 1 or more"),
        ({"prefetch": 0}, ConfigError, "prefetch is 0; it must be an integer of 1 or more"),
        ({"batch_size": 51}, ConfigError, "an epoch of 50 records has no full batch of 51 x 1"),
        ({"batch_size": "8"}, ConfigError, "batch_size is '8'"),
        ({"framework": "tf"}, ConfigError, 'framework is \'tf\'; it must be "numpy", "torch" or'),
        ({"device": "gpu"}, ConfigError, 'device is \'gpu\'; it must be "auto", "cpu", "cuda"'),
        ({"device": "cuda:999"}, gpufeed.DeviceError, "device is 'cuda:999', but DALI sees"),
        ({"sampler": 50}, ConfigError, "sampler is 50; it must be a gpufeed, torch"),
        ({"shard": (0, 2)}, ConfigError, r"shard is \(0, 2\); it must be ShardOptions"),
        ({"shard": ShardOptions}, ConfigError, r"shard is <class .*; it must be ShardOptions"),
        ({"sampler": IndexSampler(49)}, ConfigError, "for 49 records, the manifest has 50"),
        (
            {"transforms": [tf.Resize(9)]},
            ConfigError,
            "the transforms give images of different sizes",
        ),
    ],
)
def test_bad_arguments_are_named(
    pictures: Manifest, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(pictures, **options)


def test_defaults_are_those_of_the_readme(pictures: Manifest) -> None:
    loader = Loader(pictures, batch_size=10)
    batch = loader.batch(0)
    assert batch["image"].shape == (10, 3, 224, 224)
    assert repr(loader.sampler) == "IndexSampler(50, shuffle=True, epoch_size=50)"
    assert repr(loader).startswith("Loader(50 records, IndexSampler(")
    assert "opener" not in repr(loader)
    loader.close()
    shares: Any = {"graph": 0.5, "threads": 0.5}
    assert ', opener {"graph":0.5,"threads":0.5}, cpu' in repr(make(pictures, opener=shares))


def test_the_type_of_a_batch_makes_none() -> None:
    """Grain's `Batch` does, or says how."""
    assert (typing.get_origin(gpufeed.Batch), typing.get_args(gpufeed.Batch)) == (dict, (str, Any))
    for call in (lambda: gpufeed.Batch(16), lambda: gpufeed.Batch(batch_size=16)):
        with pytest.raises(ConfigError, match="pass batch_size to Loader"):
            call()
