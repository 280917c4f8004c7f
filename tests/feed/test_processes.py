"""Shards in processes of their own: together, record for record and byte for byte, one process."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpufeed import ConfigError, IndexSampler, Manifest, ShardOptions
from gpufeed.order.schedule import LastBatch, Schedule
from tests.support import feed_a_shard
from tests.support.feed_a_shard import ENDINGS, EPOCHS, GLOBAL_BATCH, Row, feed, make, save_set
from tests.support.media import make_manifest
from tests.support.processes import run

Alone = dict[str, dict[int, list[Row]]]
"""What one process is handed: by ending, by step."""


@pytest.fixture(scope="module")
def folder(pictures: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The set, where other processes find it."""
    made = tmp_path_factory.mktemp("set")
    save_set(pictures, made)
    return made


@pytest.fixture(scope="module")
def alone(pictures: Manifest) -> Alone:
    return {ending: dict(feed(make(pictures, ShardOptions(), ending))) for ending in ENDINGS}


def check(got: list[dict[str, Any]], world: int, alone: Alone) -> None:
    """The shards are those of `world` processes, and their parts make up each global batch."""
    assert [written["shard"] for written in got] == [[index, world] for index in range(world)]
    for ending in got[0]["steps"]:
        shards = [dict(written["steps"][ending]) for written in got]
        share = GLOBAL_BATCH // world
        for shard in shards:
            if ending != "partial":
                # A collective in each step would hang otherwise.
                assert list(shard) == list(alone[ending])
                assert {len(handed) for handed in shard.values()} == {share}
            assert max(len(handed) for handed in shard.values()) == share
        for step, whole in alone[ending].items():
            # In the shards' order, so that shard r is seen to have the r-th part.
            together = [tuple(row) for shard in shards for row in shard.get(step, [])]
            assert together == whole, f"last_batch={ending!r}, step {step}"
        assert set().union(*shards) == set(alone[ending])


def test_one_process_is_handed_each_record_once(pictures: Manifest, alone: Alone) -> None:
    """What the others are compared with holds all there is."""
    size = len(pictures)
    once = [(epoch, key) for epoch in range(EPOCHS) for key in range(size)]
    for ending, count in {"drop": 96, "pad": 100, "partial": 100}.items():
        handed = [row for rows in alone[ending].values() for row in rows if row[4]]
        seen = sorted(row[:2] for row in handed)
        assert len(seen) == count
        assert len(set(seen)) == count
        assert seen == once or ending == "drop"
        assert all(row[2] == pictures.frame["label"][row[1]] for row in handed)
        # Crops and flips differ from epoch to epoch.
        assert len({row[3] for row in handed}) == count


@pytest.fixture(scope="module")
def in_torch(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What two processes of torchrun got."""
    out = tmp_path_factory.mktemp("torch")
    child = ["-m", feed_a_shard.__name__, "torch", str(folder), str(out)]
    return run([(child, {})], out)


def test_processes_of_torchrun_are_one(
    pictures: Manifest, in_torch: list[dict[str, Any]], alone: Alone
) -> None:
    check(in_torch, 2, alone)
    # By collectives in each padded step: every record of every epoch once, in all processes' eyes.
    for written in in_torch:
        assert written["counts"] == [[1] * len(pictures)] * EPOCHS


@pytest.fixture(scope="module")
def in_jax(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What two processes of jax.distributed got, with two simulated devices each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    out = tmp_path_factory.mktemp("jax")
    environ = {
        "TEST_COORDINATOR": address,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    command = ["-m", feed_a_shard.__name__, "jax", str(folder), str(out)]
    return run([(command, {**environ, "TEST_PROCESS": str(i)}) for i in range(2)], out)


def test_processes_of_jax_are_one(in_jax: list[dict[str, Any]], alone: Alone) -> None:
    assert set(in_jax[0]["steps"]) == set(ENDINGS)
    check(in_jax, 2, alone)


def test_a_mesh_over_processes_is_one(
    pictures: Manifest, in_jax: list[dict[str, Any]], alone: Alone
) -> None:
    """Whatever the order of the processes in it, as long as the rows of each are contiguous."""
    got = [
        {**written, "shard": [shard, 2], "steps": written["mesh"]}
        for shard, written in enumerate(reversed(in_jax))
    ]
    assert set(got[0]["steps"]) == {"drop", "pad"}
    check(got, 2, alone)
    # Over one device of each process, which are here in their own order.
    parts = [tuple(row) for written in reversed(got) for row in written["one_each"]]
    assert parts == alone["drop"][0]
    for written in got:
        keys = [row[1] for row in written["steps"]["drop"][0][1]]
        assert written["paths"] == pictures.rows(keys)["path"].to_list()
        assert written["counts"] == [[1] * len(pictures)] * EPOCHS
        assert [tuple(row) for row in written["replicated"]] == alone["drop"][0]
        assert written["refused"].startswith(
            "sharding gives processes the rows that begin at [(0, 2), (1, 3)] of every 4; those"
        )


PRINT = r"(, fingerprint [0-9a-f]{16})?"
SAID = {
    "seed": r"sampler IndexSampler\.seed: 0 on rank 0, 1 on rank 1",
    "transforms": r"transforms\[1\] Normalize\.mean: \[0.0,.*\] on rank 0, \[0.5.*\] on rank 1",
    "batch_size": "batch_size: 4 on rank 0, 8 on rank 1",
    "manifest": f"manifest: 50 records{PRINT} on rank 0, 25 records{PRINT} on rank 1; sampler .*",
    "last_batch": "last_batch: drop on rank 0, pad on rank 1",
    "state": "records fed before: 24 on rank 0, 16 on rank 1",
    "shard": "shard 1 is read by ranks 0-1",
}


def check_said(got: list[dict[str, Any]], agreeing: set[str]) -> None:
    """Both processes raised the same error, which names what differs and nothing else."""
    first, second = (written["said"] for written in got)
    assert first == second
    assert {name for name, said in first.items() if not said} == agreeing
    for name in first.keys() - agreeing:
        start = "the processes were given different things: "
        assert re.match(rf"{start}{SAID[name]}\. Together they would feed", first[name])


def test_processes_of_torch_that_disagree_all_say_so(in_torch: list[dict[str, Any]]) -> None:
    check_said(in_torch, {"nothing", "alone", "same state"})
    assert in_torch[0]["said"].keys() == SAID.keys() | {"nothing", "alone", "same state"}


def test_processes_of_a_mesh_that_disagree_all_say_so(
    in_jax: list[dict[str, Any]], alone: Alone
) -> None:
    check_said(in_jax, {"nothing", "same state"})
    assert in_jax[0]["said"].keys() == SAID.keys() - {"shard"} | {"nothing", "same state"}
    # Known in processes that were not forked.
    assert len(re.findall(PRINT[:-1], in_jax[0]["said"]["manifest"])) == 2
    # Each over a mesh of its own, and so with nobody to wait for.
    for written in in_jax:
        assert [tuple(row) for row in written["alone"]] == alone["drop"][0]


# --------------------------------------------------------------- without processes


def test_an_evaluation_is_the_same_number_at_any_number_of_shards() -> None:
    """As many records as NABirds' test part has, 64 at a time: each counts once, in equal steps."""
    size = 24_633
    correct = np.random.default_rng(0).random(size) < 0.7
    sampler = IndexSampler(size, shuffle=True, seed=3, num_epochs=1)
    for world in (1, 3, 7, 8):
        counted = np.zeros(size, dtype=np.int64)
        right = total = 0
        plans = [Schedule(size, 1, 64, ShardOptions(i, world), "pad") for i in range(world)]
        assert {plan.num_steps for plan in plans} == {-(-size // (64 * world))}
        for plan in plans:
            for step in plan.steps_of(0):
                positions, valid = plan.positions(step)
                assert len(positions) == len(valid) == 64
                keys = sampler.visits(positions).record_key[valid]
                np.add.at(counted, keys, 1)
                right += int(correct[keys].sum())
                total += len(keys)
        assert (counted == 1).all()
        assert right / total == correct.sum() / size


def many(last_batch: LastBatch) -> list[Schedule | str]:
    """Schedules of three records for eight shards, one record at a time; or why there is none."""
    plans: list[Schedule | str] = []
    for index in range(8):
        try:
            plans.append(Schedule(3, None, 1, ShardOptions(index, 8), last_batch))
        except ConfigError as error:
            plans.append(str(error))
    return plans


def test_more_shards_than_records_is_padded_or_named() -> None:
    for number, plan in enumerate(many("pad")):
        assert isinstance(plan, Schedule)
        for epoch in (0, 1):
            positions, valid = plan.positions(epoch)
            assert positions.tolist() == [3 * epoch + min(number, 2)]
            assert valid.tolist() == [number < 3]
    for reason in many("drop"):
        assert isinstance(reason, str)
        assert reason.startswith("an epoch of 3 records has no full batch of 1 x 8 shard(s)")
    for reason in many("partial"):
        assert isinstance(reason, str)
        assert reason.startswith("shard 7 of 8 would never get a record")


def test_more_shards_than_pictures_are_fed_or_named(tmp_path: Path) -> None:
    manifest = make_manifest(tmp_path, [(60, 80), (50, 70), (90, 40)])
    shards = [ShardOptions(index, 8) for index in range(8)]
    for shard in shards:
        with pytest.raises(ConfigError, match="has no full batch of 1 x 8"):
            make(manifest, shard, "drop")
        with pytest.raises(ConfigError, match="shard 7 of 8 would never get"):
            make(manifest, shard, "partial")
    padded = [feed(make(manifest, shard, "pad")) for shard in shards]
    for steps in padded:
        assert [(step, len(handed)) for step, handed in steps] == [(0, 1), (1, 1)]
    whole = [row for _, handed in feed(make(manifest, ShardOptions(), "pad")) for row in handed]
    valid = [row for row in whole if row[4]]
    assert sorted(row[:2] for row in valid) == [
        (epoch, key) for epoch in (0, 1) for key in range(3)
    ]
    together = [row for step in (0, 1) for steps in padded for row in steps[step][1]]
    assert [row for row in together if row[4]] == valid
