"""A sampler of your own: a curriculum, easy records first."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gpufeed


# [docs]
class Curriculum(gpufeed.Sampler):
    """Shuffle the easiest records first: in epoch e the easiest (e + 1) / ramp of them."""

    def __init__(self, difficulty, ramp=10, seed=0, num_epochs=None):
        super().__init__(len(difficulty), seed=seed, num_epochs=num_epochs)
        self.ramp = ramp
        self.easiest = np.argsort(difficulty, kind="stable")
        self.shuffled = gpufeed.IndexSampler(len(difficulty), shuffle=True, seed=seed)

    def visits(self, positions):
        drawn = self.shuffled.visits(positions)
        share = np.minimum(drawn.epoch + 1, self.ramp)
        known = np.maximum(self.num_records * share // self.ramp, 1)
        rank = drawn.record_key * known // self.num_records
        # A draw key of its own for each visit: two visits to a record draw different crops.
        return gpufeed.Visits(drawn.epoch, self.easiest[rank], drawn.record_key)

    @property
    def identity(self):
        easiest = self.easiest.tolist()
        return {"kind": "Curriculum", "seed": self.seed, "ramp": self.ramp, "easiest": easiest}


# [/docs]


@pytest.fixture(scope="module")
def images() -> list[bytes]:
    drawn, images = np.random.default_rng(0), []
    for _ in range(40):
        buffer = io.BytesIO()
        Image.fromarray(drawn.integers(0, 256, (24, 20, 3), np.uint8)).save(buffer, "JPEG")
        images.append(buffer.getvalue())
    return images


def test_easy_records_come_first() -> None:
    difficulty = np.random.default_rng(1).permutation(40)
    sampler = Curriculum(difficulty, ramp=4)
    for epoch, hardest in enumerate((10, 20, 30, 40, 40)):
        seen = difficulty[sampler.keys(40 * epoch, 40 * epoch + 40)]
        assert set(seen) == set(range(hardest))


def test_a_loader_resumes_it_at_another_number_of_shards(images: list[bytes]) -> None:
    source = gpufeed.MemorySource(images)
    manifest = gpufeed.read_table(pl.DataFrame({"label": [0] * 40}), source=source)
    difficulty = np.random.default_rng(1).permutation(40)

    def loader(shard: int, count: int) -> gpufeed.Loader:
        return gpufeed.Loader(
            manifest,
            sampler=Curriculum(difficulty, ramp=4),
            transforms=gpufeed.presets.train(16),
            batch_size=8 // count,
            shard=gpufeed.ShardOptions(shard, count),
            device="cpu",
        )

    with loader(0, 1) as whole:
        wanted = [whole.batch(step)["image"] for step in range(7)]
        whole.seek(6)
        state = whole.state_dict()
    parts = []
    for shard in range(2):
        with loader(shard, 2) as half:
            half.load_state_dict(state)
            parts.append(next(iter(half))["image"])
    assert (np.concatenate(parts) == wanted[6]).all()


class Reweighted(gpufeed.Sampler):
    """Feed the records that were chosen last, over and over."""

    def __init__(self, num_records: int) -> None:
        super().__init__(num_records)
        self.chosen = np.arange(num_records)

    def visits(self, positions):
        epoch, within = np.divmod(positions, self.epoch_size)
        return gpufeed.Visits(epoch, self.chosen[within % len(self.chosen)], within)

    @property
    def identity(self):
        return {"kind": "Reweighted", "chosen": self.chosen.tolist()}


@pytest.fixture
def reweighted(images: list[bytes]) -> Iterator[gpufeed.Loader]:
    manifest = gpufeed.read_table(
        pl.DataFrame({"label": [0] * 40}), source=gpufeed.MemorySource(images)
    )
    with gpufeed.Loader(
        manifest,
        sampler=Reweighted(40),
        transforms=gpufeed.presets.train(16),
        batch_size=8,
        device="cpu",
    ) as loader:
        yield loader


@pytest.mark.parametrize(
    ("name", "value"), [("chosen", np.arange(5)), ("seed", 1)], ids=["order", "seed"]
)
def test_a_batch_prepared_before_the_sampler_changed_is_an_error(
    reweighted: gpufeed.Loader, name: str, value: object
) -> None:
    assert len(list(reweighted)) == 5
    before = reweighted.state_dict()
    setattr(reweighted.sampler, name, value)
    message = r"Reweighted has changed since batch 5 was prepared.*loader\.seek\(loader\.step\)"
    with pytest.raises(gpufeed.ConfigError, match=message):
        next(iter(reweighted))
    reweighted.seek(reweighted.step)
    fed = list(reweighted)
    assert [each["epoch"][0] for each in fed] == [1] * 5
    for step, batch in enumerate(fed, 5):
        assert (batch["image"] == reweighted.batch(step)["image"]).all()
    if name == "chosen":
        assert max(max(batch["record_key"]) for batch in fed) == 4
        with pytest.raises(gpufeed.StateMismatchError, match="chosen"):
            reweighted.load_state_dict(before)
        reweighted.sampler.chosen = np.arange(40)
        reweighted.load_state_dict(before)


def test_a_sampler_may_change_before_a_seek(reweighted: gpufeed.Loader) -> None:
    list(reweighted)
    reweighted.sampler.chosen = np.arange(5)
    reweighted.seek(reweighted.step)
    assert {key for batch in reweighted for key in batch["record_key"].tolist()} == set(range(5))


def test_samplers_of_gpufeed_do_not_change() -> None:
    sampler = gpufeed.SubsetSampler(40, [1, 2, 3], shuffle=True)
    for name in ("seed", "epoch_size", "num_epochs", "shuffle", "record_keys"):
        with pytest.raises(AttributeError, match=f"make a new one with another {name}"):
            setattr(sampler, name, 7)
    assert copy.deepcopy(sampler).keys(0, 3).tolist() == sampler.keys(0, 3).tolist()
