"""Where an iteration starts and ends: evaluation that starts anew, and batches without an end."""

from __future__ import annotations

import itertools
import json
from typing import Any

import jax
import pytest
import torch
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import gpufeed
from gpufeed import (
    ConfigError,
    EpochsExhausted,
    IndexSampler,
    Loader,
    Manifest,
    ShardOptions,
    StateError,
)
from tests.support.loaders import digest, make

SMALL = {"transforms": gpufeed.presets.evaluate(16), "device": "cpu", "num_threads": 2}


def evaluation(manifest: Manifest, **options: Any) -> Loader:
    return Loader.for_evaluation(manifest, **{**SMALL, "batch_size": 16, **options})


def valid_keys(batch: dict[str, Any]) -> list[int]:
    return batch["record_key"][batch["valid"]].tolist()


# ------------------------------------------------------------------------- evaluation


def test_evaluations_are_iterated_as_torchs_loader_is(pictures: Manifest) -> None:
    """Whole or left early, as often as one likes."""
    theirs = torch.utils.data.DataLoader(range(50), batch_size=16)
    with evaluation(pictures) as loader:
        assert len(loader) == len(theirs)
        for stop in (None, 2, 1, None, 3, None):
            seen = [valid_keys(batch) for batch in itertools.islice(loader, stop)]
            assert seen == [keys.tolist() for keys in itertools.islice(theirs, stop)]


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [16, 16, 16, 2]),  # also where a loop ignores `valid`
        ({"last_batch": "pad"}, [16] * 4),
        ({"shard": ShardOptions(1, 2)}, [16] * 2),  # as many as the other process has
        ({"shard": ShardOptions(0, 1), "last_batch": "drop"}, [16] * 3),
        ({"framework": "jax", "sharding": "one process"}, [16] * 4),
    ],
    ids=str,
)
def test_an_evaluation_is_padded_where_processes_need_equal_batches(
    pictures: Manifest, options: dict[str, Any], sizes: list[int]
) -> None:
    if "sharding" in options:
        mesh = Mesh(jax.devices()[:1], ("data",))
        options["sharding"] = NamedSharding(mesh, PartitionSpec("data"))
    with evaluation(pictures, **options) as loader:
        batches = list(loader)
        assert len(loader) == len(batches)
    assert [len(batch["image"]) for batch in batches] == sizes
    if options.get("last_batch") != "drop":
        assert all(len(batch["valid"]) == len(batch["image"]) for batch in batches)


def test_the_processes_may_be_known_only_after_the_loader(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluation(pictures, shard=ShardOptions(1, 4)) as given:
        expected = [digest(batch) for batch in given]
    with evaluation(pictures) as loader:
        assert len(list(loader)[-1]["image"]) == 2
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "4")
        found = list(loader)
    assert [digest(batch) for batch in found] == expected
    assert [int(batch["valid"].sum()) for batch in found] == [16]


def test_all_evaluations_hand_out_the_same(pictures: Manifest) -> None:
    """Also of random transforms, and of an order that torch draws anew each time."""
    given = torch.utils.data.RandomSampler(range(50))
    with evaluation(pictures, sampler=given, transforms=gpufeed.presets.train(16)) as loader:
        first, second = ([digest(batch) for batch in loader] for _ in range(2))
    assert first == second


def test_a_subset_can_be_evaluated(pictures: Manifest) -> None:
    with evaluation(pictures, sampler=[9, 4, 30], batch_size=2) as loader:
        for _ in range(2):
            assert [valid_keys(batch) for batch in loader] == [[9, 4], [30]]


def test_evaluation_has_the_transforms_of_evaluation(pictures: Manifest) -> None:
    wanted = make(pictures, transforms=gpufeed.presets.evaluate())
    for given in ({}, {"transforms": None, "sampler": None}):
        loader = Loader.for_evaluation(pictures, device="cpu", batch_size=7, **given)
        fingerprints = loader.state_dict()["fingerprints"]
        assert fingerprints["transforms"] == wanted.state_dict()["fingerprints"]["transforms"]
        assert json.loads(fingerprints["sampler"])["kind"] == "SequentialSampler"


def test_an_evaluation_that_was_stopped_goes_on_from_its_state(pictures: Manifest) -> None:
    with evaluation(pictures) as loader:
        whole = [digest(batch) for batch in loader]
        for stop in (1, 4):
            for _ in itertools.islice(loader, stop):
                state = loader.state_dict()
            with evaluation(pictures) as other:
                other.load_state_dict(state)
                # One that was saved at its end is over.
                assert [digest(batch) for batch in other] == whole[stop % 4 :]
                assert [digest(batch) for batch in other] == whole


def test_a_place_that_was_chosen_is_where_the_next_loop_starts(pictures: Manifest) -> None:
    with evaluation(pictures) as loader:
        whole = [digest(batch) for batch in loader]
        next(iter(loader))
        loader.skip()  # past a bad image, say
        assert [digest(batch) for batch in loader] == whole[2:]
        for _ in loader:
            loader.seek(len(loader))
        assert [digest(batch) for batch in loader] == whole


def test_processes_together_evaluate_each_record_once(pictures: Manifest) -> None:
    keys: list[int] = []
    for index in range(3):
        with evaluation(pictures, shard=ShardOptions(index, 3)) as loader:
            assert len(list(loader)) == 2
            keys += [key for batch in loader for key in valid_keys(batch)]
    assert sorted(keys) == list(range(50))


def test_the_length_is_that_of_every_evaluation(pictures: Manifest) -> None:
    """Also after one has ended, where an epoch after it would have larger batches."""
    with evaluation(pictures, batch_size={0: 16, 4: 50}) as loader:
        for _ in range(2):
            assert len(loader) == len(list(loader)) == 4
            assert loader.epoch == 0


def test_what_is_no_manifest_is_named() -> None:
    given: Any = 5
    with pytest.raises(ConfigError, match="manifest is 5; it must be a Manifest, as"):
        Loader.for_evaluation(given)
    given = torch.utils.data.ConcatDataset([[1], [2]])
    with pytest.raises(ConfigError, match=r"must be a Manifest.*; concat\(\[first, second\]\)"):
        Loader(given)
    given = ["a long path"] * 1000
    with pytest.raises(ConfigError, match=r"\.\.\.\]; it must be a Manifest") as caught:
        Loader(given)
    assert len(str(caught.value)) < 400


# --------------------------------------------------------------------- without an end


@pytest.fixture(scope="module")
def three_epochs(pictures: Manifest) -> list[str]:
    """Digests of the batches of three epochs, each iterated on its own."""
    with make(pictures) as loader:
        return [digest(batch) for _ in range(3) for batch in loader]


def test_forever_goes_on_across_epochs(pictures: Manifest, three_epochs: list[str]) -> None:
    with make(pictures) as loader:
        batches = iter(loader.forever())
        assert [digest(next(batches)) for _ in three_epochs] == three_epochs
        assert (loader.step, loader.epoch) == (18, 3)
        assert loader.stats.batches == 18


def test_loops_of_both_kinds_continue_each_other(
    pictures: Manifest, three_epochs: list[str]
) -> None:
    with make(pictures) as loader:
        seen = [digest(batch) for batch in itertools.islice(loader, 2)]
        for batch in loader.forever():
            seen.append(digest(batch))
            if loader.step == 9:
                break
        seen += [digest(batch) for batch in loader]
        seen += [digest(batch) for batch in itertools.islice(loader.forever(), 6)]
    assert seen == three_epochs


@pytest.mark.parametrize("stop", [0, 5, 6, 7, 12])
def test_a_state_of_an_endless_loop_holds_at_any_step(
    pictures: Manifest, three_epochs: list[str], stop: int
) -> None:
    with make(pictures) as loader:
        batches = loader.forever()
        for _ in range(stop):
            next(batches)
        state = loader.state_dict()
        next(batches)
        loader.load_state_dict(state)
        assert digest(next(batches)) == three_epochs[stop]
    with make(pictures) as loader:
        loader.load_state_dict(state)
        rest = itertools.islice(loader.forever(), 18 - stop)
        assert [digest(batch) for batch in rest] == three_epochs[stop:]


def test_an_endless_loop_goes_on_from_wherever_it_is_sent(
    pictures: Manifest, three_epochs: list[str]
) -> None:
    with make(pictures) as loader:
        batches = loader.forever()
        seen = [digest(next(batches))]
        loader.skip(9)
        seen.append(digest(next(batches)))
        loader.set_epoch(2)
        seen.append(digest(next(batches)))
        loader.seek(5)
        seen += [digest(next(batches)) for _ in range(2)]
        assert seen == [three_epochs[step] for step in (0, 10, 12, 5, 6)]


def test_forever_ends_with_the_samplers_last_epoch(
    pictures: Manifest, three_epochs: list[str]
) -> None:
    sampler = IndexSampler(50, shuffle=True, seed=3, num_epochs=2)
    with make(pictures, sampler=sampler) as loader:
        batches = loader.forever()
        assert [digest(batch) for batch in batches] == three_epochs[:12]
        with pytest.raises(StopIteration):
            next(batches)
        with pytest.raises(EpochsExhausted, match=r"all 2 epoch\(s\)"):
            loader.forever()


def test_an_iteration_that_is_sent_to_the_end_stays_there(pictures: Manifest) -> None:
    with make(pictures, sampler=IndexSampler(50, num_epochs=2)) as loader:
        batches = iter(loader)
        loader.seek(12)
        assert list(batches) == []
        assert loader.step == 12
        loader.load_state_dict(loader.state_dict())


def test_a_shard_without_a_rest_goes_on_into_the_next_epoch(pictures: Manifest) -> None:
    options: dict[str, Any] = {"last_batch": "partial", "shard": ShardOptions(2, 3)}
    with make(pictures, **options) as loader:
        wanted = [digest(loader.batch(step)) for step in (0, 1, 3, 4, 6)]
        assert [digest(batch) for batch in itertools.islice(loader.forever(), 5)] == wanted


def test_what_ends_an_endless_loop(pictures: Manifest) -> None:
    with make(pictures) as loader:
        batches = loader.forever()
        next(batches)
    with pytest.raises(ConfigError, match=r"this iteration was ended by a later one .* by close"):
        next(batches)
    with (
        evaluation(pictures) as loader,
        pytest.raises(ConfigError, match=r"restart is True, .* needs a loader with restart=False"),
    ):
        loader.forever()


# --------------------------------------------------------------- the state of an iterator


@pytest.mark.parametrize("stop", [0, 5, 6, 7, 12])
@pytest.mark.parametrize("taken", [0, 3, 7], ids=["new", "running", "finished"])
def test_an_iterator_goes_on_from_a_state(
    pictures: Manifest, three_epochs: list[str], stop: int, taken: int
) -> None:
    """To the end of the state's epoch, wherever it stood itself."""
    with make(pictures) as loader:
        batches = loader.forever()
        for _ in range(stop):
            next(batches)
        state = batches.get_state()
        assert state == loader.get_state()
    with make(pictures) as loader:
        batches = iter(loader)
        for _ in itertools.islice(batches, taken):
            pass
        batches.set_state(state)
        rest = [digest(batch) for batch in batches]
    assert rest == three_epochs[stop : stop - stop % 6 + 6]


def test_an_iterator_that_was_sent_to_a_state_is_the_loaders(
    pictures: Manifest, three_epochs: list[str]
) -> None:
    with make(pictures) as loader:
        first = iter(loader)
        state = first.get_state()
        next(first)
        second = loader.forever()
        next(second)
        with pytest.raises(StateError, match="is not the state of a gpufeed loader"):
            first.set_state(b"{}")
        assert digest(next(second)) == three_epochs[2]
        first.set_state(state)
        assert digest(next(first)) == three_epochs[0]
        with pytest.raises(ConfigError, match="this iteration was ended by a later one"):
            next(second)


def test_an_iterator_sent_to_the_end_is_finished(pictures: Manifest) -> None:
    sampler = IndexSampler(50, shuffle=True, seed=3, num_epochs=2)
    with make(pictures, sampler=sampler) as loader:
        loader.seek(12)
        state = loader.get_state()
        loader.seek(0)
        for batches in (iter(loader), loader.forever()):
            batches.set_state(state)
            assert list(batches) == []
            assert loader.get_state() == state
            loader.seek(0)


# ------------------------------------------------------------------------- what is told


def test_where_a_loader_stands_is_shown(pictures: Manifest) -> None:
    sampler = IndexSampler(50, num_epochs=3)
    with make(pictures, sampler=sampler, batch_size=24) as loader:
        assert "2 batches of 24 in epoch 0 of 3, drops 2 of 50 records an epoch" in repr(loader)
        next(iter(loader))  # a peek
        assert repr(loader).endswith("at step 1, batch 1 of the epoch)")
        list(loader)
        assert "in epoch 1 of 3, " in repr(loader)
        assert repr(loader).endswith("at step 2, batch 0 of the epoch)")
        list(loader.forever())
        assert repr(loader).endswith("at step 6, the end of all epochs)")
    assert "drops" not in repr(make(pictures, last_batch="pad", batch_size=24))


def test_an_epoch_that_drops_much_is_told_once(
    pictures: Manifest, caplog: pytest.LogCaptureFixture
) -> None:
    with make(pictures, batch_size=16, shard=ShardOptions(1, 2)) as loader:
        loader.batch(0)
        repr(loader), len(loader), loader.state_dict()
        assert not caplog.messages
        for _ in range(3):
            next(iter(loader))
    (message,) = [each for each in caplog.messages if "dropped" in each]
    assert "of the 50 records of an epoch, 18 are dropped" in message
    assert "a batch of 16 x 2 shard(s); pass last_batch=" in message
    for options in ({"batch_size": 9}, {"batch_size": 32, "last_batch": "partial"}):
        with make(pictures, **options) as loader:
            next(iter(loader))  # at most a tenth, and nothing
    assert sum("dropped" in each for each in caplog.messages) == 1
