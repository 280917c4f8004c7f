"""Records that stay on their machine: once per epoch each, in a new order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed import (
    ConfigError,
    DiskCache,
    NodeLocalSampler,
    ShardOptions,
    read_table,
    stage,
)
from tests.support.loaders import make
from tests.support.media import make_manifest, write_table


@st.composite
def settings(draw: st.DrawFn) -> tuple[int, int, int]:
    nodes = draw(st.integers(1, 7))
    return draw(st.integers(nodes, 90)), nodes, nodes * draw(st.integers(1, 9))


@given(settings(), st.integers(0, 2**64 - 1), st.integers(0, 5))
def test_each_record_comes_once_and_on_its_node(
    setting: tuple[int, int, int], seed: int, epoch: int
) -> None:
    records, nodes, batch = setting
    sampler = NodeLocalSampler(records, nodes=nodes, global_batch=batch, seed=seed)
    keys = sampler.keys(epoch * sampler.epoch_size, (epoch + 1) * sampler.epoch_size)
    counts = np.bincount(keys, minlength=records)
    assert counts.min() == 1
    assert counts.sum() - records == sampler.epoch_size - records < nodes
    assert sampler.has_repeats == (counts.max() > 1)
    own = [{*sampler.records(node).tolist()} for node in range(nodes)]
    assert all(len(each) == len(own[0]) == -(-records // nodes) for each in own)
    assert set().union(*own) == {*range(records)}
    whole = len(keys) // batch
    for step in keys[: whole * batch].reshape(whole, nodes, batch // nodes):
        assert all({*part.tolist()} <= own[node] for node, part in enumerate(step))


def test_the_division_and_the_order_are_random() -> None:
    """As those of NumPy: parts of two seeds have as much in common as chance has it."""
    first, second = (NodeLocalSampler(6000, nodes=3, global_batch=60, seed=seed) for seed in (1, 2))
    common = len({*first.records(0).tolist()} & {*second.records(0).tolist()})
    assert abs(common - 2000 / 3) < 5 * np.sqrt(2000 * (1 / 3) * (2 / 3))
    epochs = first.keys(0, 3 * first.epoch_size).reshape(3, -1)
    assert abs(np.corrcoef(epochs)[np.triu_indices(3, 1)]).max() < 5 / np.sqrt(6000)
    assert abs(np.corrcoef(np.sort(first.records(1)), first.records(1))[0, 1]) < 5 / np.sqrt(2000)


def test_a_machine_reads_only_what_was_staged_for_it(tmp_path: Path) -> None:
    """Of two machines with two processes each, and one image as large as another."""
    made = make_manifest(tmp_path / "images", [(30, 40)] * 32)
    manifest = read_table(write_table(made))
    sampler = NodeLocalSampler(32, nodes=2, global_batch=8, seed=3)
    expected = [sampler.keys(start, start + 8) for start in range(0, 96, 8)]
    found = np.zeros((12, 8), np.int64)
    for rank in range(4):
        disk = DiskCache(tmp_path / f"node{rank // 2}", "1 MB")
        done = stage(manifest, disk, records=sampler.records(rank // 2))
        assert done.kept == 16
        options = {"sampler": sampler, "batch_size": 2, "shard": ShardOptions(rank, 4)}
        with make(manifest, cache=[disk], **options) as loader:
            for _ in range(3):
                for batch in loader:
                    step = loader.step - 1
                    found[step, 2 * rank : 2 * rank + 2] = batch["record_key"]
                assert loader.stats.fetched_images == 0
    assert (found == expected).all()


def test_what_cannot_be_divided_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="global_batch is 8; it must be a multiple of nodes, 3"):
        NodeLocalSampler(20, nodes=3, global_batch=8)
    with pytest.raises(ConfigError, match="nodes is 21; it must be an integer of 1 to 20"):
        NodeLocalSampler(20, nodes=21, global_batch=21)
    with pytest.raises(IndexError, match="node is 3; there are nodes 0 to 2"):
        NodeLocalSampler(20, nodes=3, global_batch=9).records(3)
    manifest = make_manifest(tmp_path, [(9, 9)] * 20)
    with pytest.raises(ConfigError, match="not a multiple of the sampler's groups of 9"):
        make(manifest, sampler=NodeLocalSampler(20, nodes=3, global_batch=9), batch_size=4)
