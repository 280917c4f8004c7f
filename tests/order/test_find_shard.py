"""A loader without `shard` takes the part that its process group or its launcher gives it."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator

import grain
import numpy as np
import polars as pl
import pytest
import torch

import gpufeed
from gpufeed import ConfigError, Loader, Manifest, ShardOptions, SubsetSampler
from gpufeed import transforms as tf
from tests.support.waiting import PATIENCE

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4"}
# Lightning's children are told no RANK.
LIGHTNING = {"LOCAL_RANK": "1", "NODE_RANK": "0", "WORLD_SIZE": "2"}


def make(manifest: Manifest, **options: object) -> Loader:
    settings: dict[str, object] = {"batch_size": 4, "device": "cpu", "num_threads": 1}
    transforms = [tf.Resize(8), tf.CenterCrop(8), tf.ToDtype("uint8")]
    return Loader(manifest, transforms=transforms, **(settings | options))  # type: ignore[arg-type]


def setenv(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


def initialize(monkeypatch: pytest.MonkeyPatch, rank: int, world: int) -> None:
    """Have torch.distributed say that it is initialized, by a backend that has no store."""
    monkeypatch.setattr(torch.distributed.distributed_c10d, "_get_default_store", lambda: None)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: world)


def keys(batch: gpufeed.Batch) -> list[int]:
    found: list[int] = batch["record_key"].tolist()
    return found


def test_a_launcher_divides_the_records(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(pictures, shard=ShardOptions(1, 4)) as given:
        expected = [keys(batch) for batch in given]
    setenv(monkeypatch, TORCHRUN)
    with make(pictures) as loader:
        assert "shard 1 of 4 from the launcher, cpu" in repr(loader)
        assert len(loader) == len(expected) == len(pictures) // 16
        assert [keys(batch) for batch in loader] == expected
    with make(pictures, shard=ShardOptions(0, 1)) as alone:  # on purpose
        assert "shard" not in repr(alone)
        assert len(alone) == len(pictures) // 4
        assert keys(alone.batch(0)) == keys(make(pictures, shard=ShardOptions(0, 1)).batch(0))


def test_a_single_process_is_shown_as_one(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(pictures) as loader:
        assert "shard" not in repr(loader)
        initialize(monkeypatch, 0, 1)
        for _ in loader:
            break
        assert "shard 0 of 1 from torch.distributed, cpu" in repr(loader)


@pytest.mark.parametrize("environ", [{}, LIGHTNING])
def test_a_process_group_that_comes_later_is_followed(
    environ: dict[str, str], pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    setenv(monkeypatch, environ)
    with make(pictures, ledger=True) as loader:
        assert len(loader) == len(pictures) // 4
        initialize(monkeypatch, 1, 2)
        with make(pictures, shard=ShardOptions(1, 2)) as given:
            assert [keys(batch) for batch in loader] == [keys(batch) for batch in given]
        assert "shard 1 of 2 from torch.distributed" in repr(loader)
        assert len(loader) == len(pictures) // 8
        assert loader.epoch == 1
        assert loader.ledger is not None
        assert loader.ledger.run.per_epoch == len(pictures) // 8 * 8


def test_the_place_in_the_order_is_kept(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(pictures) as loader:
        loader.seek(4)
        initialize(monkeypatch, 0, 2)
        with make(pictures, shard=ShardOptions(0, 2)) as given:
            assert keys(next(iter(loader))) == keys(given.batch(2))
        assert loader.state_dict()["records"] == 24
    with make(pictures, shard=ShardOptions(0, 1)) as single:
        single.seek(4)
        state = single.state_dict()
    with make(pictures) as loader:
        loader.load_state_dict(state)
        assert loader.step == 2


@pytest.mark.parametrize(
    ("start", "move", "step"),
    [
        (0, lambda loader: loader.set_epoch(1), 6),
        (4, lambda loader: loader.skip(), 3),
        (4, lambda loader: loader.step, 2),
    ],
)
def test_steps_are_counted_in_the_batches_of_all_processes(
    start: int,
    move: Callable[[Loader], object],
    step: int,
    pictures: Manifest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By whatever is called first after the process group is initialized."""
    with make(pictures) as loader:
        for _ in itertools.islice(loader, start):
            pass
        initialize(monkeypatch, 0, 2)
        move(loader)
        assert loader.step == step


def test_a_place_where_no_batch_begins_any_more_is_an_error_each_time(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(pictures) as loader:
        loader.seek(3)
        initialize(monkeypatch, 0, 2)
        for _ in range(2):
            with pytest.raises(ConfigError, match=r"stands at record 12 .* of processes is 2"):
                iter(loader)
        assert loader.state_dict()["records"] == 12


def test_a_process_group_ends_an_iteration_begun_before(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batches would go on to the end of another epoch."""
    with make(pictures) as loader:
        batches = iter(loader)
        assert [len(next(batches)["label"]) for _ in range(2)] == [4, 4]
        initialize(monkeypatch, 0, 2)
        iter(loader)
        with pytest.raises(ConfigError, match=r"ended by .* a process group initialized since"):
            next(batches)
        assert len(list(loader)) == 5


GETTERS: list[Callable[[Loader], object]] = [
    repr,
    len,
    lambda loader: loader.step,
    lambda loader: loader.epoch,
    lambda loader: loader.stats,
    Loader.state_dict,
]


@pytest.mark.parametrize("getter", GETTERS)
def test_a_getter_changes_nothing(
    getter: Callable[[Loader], object], pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a launcher or a process group says since; a running iteration goes on as it was."""
    with make(pictures, ledger=True) as loader, make(pictures) as other:
        expected = [keys(other.batch(step)) for step in range(len(other))]
        batches = iter(loader)
        seen = [keys(next(batches)) for _ in range(3)]
        state = loader.state_dict()
        setenv(monkeypatch, {"RANK": "0", "WORLD_SIZE": "2"})
        getter(loader)
        initialize(monkeypatch, 1, 2)
        getter(loader)
        assert (loader.step, loader.epoch, len(loader)) == (3, 0, len(expected))
        assert loader.state_dict() == state
        seen += [keys(batch) for batch in batches]
        assert seen == expected
        assert loader.ledger is not None
        assert loader.ledger.run.per_epoch == 4 * len(expected)


@pytest.mark.parametrize("getter", GETTERS)
def test_a_getter_says_what_comes_next(
    getter: Callable[[Loader], object], pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the shard that iterating takes, before it is taken, and each time anew."""
    with make(pictures) as loader:
        whole = (len(loader), loader.step, repr(loader))
        with monkeypatch.context() as there:
            initialize(there, 1, 2)
            getter(loader)
            assert (len(loader), loader.step) == (len(pictures) // 8, 0)
            assert "shard 1 of 2 from torch.distributed" in repr(loader)
        assert (len(loader), loader.step, repr(loader)) == whole


@pytest.mark.parametrize("how", [iter, Loader.forever])
def test_an_iterator_made_before_the_process_group_follows_it(
    how: Callable[[Loader], Iterator[gpufeed.Batch]],
    pictures: Manifest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with make(pictures) as loader, make(pictures, shard=ShardOptions(1, 2)) as given:
        batches = how(loader)
        initialize(monkeypatch, 1, 2)
        assert [keys(next(batches)) for _ in range(3)] == [keys(given.batch(i)) for i in range(3)]


def test_an_order_that_cannot_be_divided_is_refused(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = make(pictures, sampler=torch.utils.data.RandomSampler(range(len(pictures))))
    initialize(monkeypatch, 0, 2)
    with pytest.raises(ConfigError, match="may have a different order in each of the 2 processes"):
        iter(loader)


def test_a_sampler_with_shards_of_its_own_is_not_divided_again(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    initialize(monkeypatch, 0, 2)
    sampler = torch.utils.data.DistributedSampler(range(len(pictures)), 2, 0, shuffle=False)
    with make(pictures, sampler=sampler) as loader:
        assert keys(loader.batch(0)) == [0, 2, 4, 6]


def test_variables_without_a_shard_are_an_error_once_images_are_requested(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    setenv(monkeypatch, LIGHTNING)
    loader = make(pictures)
    message = "RANK is not set; set both or neither. If this process should read all records, pass"
    for request in (lambda: iter(loader), lambda: loader.batch(0)):
        with pytest.raises(ConfigError, match=re.escape(message)):
            request()


class EverySecond:
    """A sampler for one of two processes, of which gpufeed knows nothing."""

    def __len__(self) -> int:
        return 25

    def __iter__(self) -> Iterator[int]:
        return iter(range(1, 50, 2))

    def set_epoch(self, epoch: int) -> None:
        pass


def test_a_strangers_sampler_of_a_part_is_warned_of(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    initialize(monkeypatch, 1, 2)
    with pytest.warns(UserWarning, match="these 25 records are 1/2 of the 50"):
        make(pictures, sampler=EverySecond())


@pytest.mark.parametrize("how", ["filter", "take", "list", "sampler", "grain"])
def test_records_that_were_divided_already_are_warned_of(
    how: str, pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.arange(1, len(pictures), 4)
    manifest, sampler = pictures, None
    if how == "filter":
        manifest = pictures.filter(np.arange(len(pictures)) % 4 == 1)
    elif how == "take":
        manifest = pictures.take(rows)
    else:
        sampler = {
            "list": rows.tolist(),
            "sampler": SubsetSampler(len(pictures), rows),
            "grain": grain.MapDataset.range(len(pictures))[1::4],
        }[how]

    def build(shard: ShardOptions | None = None) -> Loader:
        return make(manifest, sampler=sampler, batch_size=1, shard=shard)

    setenv(monkeypatch, TORCHRUN)
    with pytest.warns(UserWarning, match=f"these {len(rows)} records are 1/4 of the") as caught:
        build()
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(ShardOptions(0, 1))
        make(pictures)
        make(pictures.filter(np.arange(len(pictures)) % 3 > 0))
        for part in (*pictures.random_split([0.25] * 4), pictures.k_fold(4, fold=0)[1]):
            assert len(part) in (12, 13)
            make(part, batch_size=1)
        split = pl.Series("split", ["train", "val", "test", "rest"] * 13)[: len(pictures)]
        named = Manifest(pictures.frame.with_columns(split), pictures.root, pictures.classes)
        make(named.split("val"), batch_size=1)


def test_finding_the_shard_imports_no_framework(tmp_path: object) -> None:
    program = (
        "import sys, gpufeed.order.find_shard as found; print(found.find_shard());"
        "sys.exit('torch' in sys.modules or 'jax' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)


def test_the_shard_of_jax_needs_its_distributed_system() -> None:
    with pytest.raises(ConfigError, match=r"call jax\.distributed\.initialize\(\) before"):
        gpufeed.shard_from_jax()


def test_a_sampler_of_groups_is_checked_with_the_processes_that_come_later(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = make(pictures)
    monkeypatch.setattr(type(loader.sampler), "group", 16)
    initialize(monkeypatch, 0, 2)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"the global batch, 4 x 2 shard\(s\)"):
            len(loader)
