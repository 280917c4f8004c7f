"""torch's Subset of a manifest goes where a manifest goes."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import Subset, random_split

import gpufeed
from gpufeed import ConfigError, Loader, Manifest

SMALL = {"transforms": gpufeed.presets.evaluate(8), "batch_size": 4, "device": "cpu"}


def paths(manifest: Manifest) -> list[str]:
    return manifest.frame["path"].to_list()


def test_subsets_of_torch(pictures: Manifest) -> None:
    train, val = random_split(pictures, [0.8, 0.2], torch.Generator().manual_seed(0))
    assert sorted([*train.indices, *val.indices]) == list(range(50))
    for part in (train, val):
        loader = Loader(part, **SMALL)
        assert paths(loader.manifest) == [paths(pictures)[key] for key in part.indices]
        assert loader.manifest.classes == pictures.classes
    with Loader.for_evaluation(Subset(val, [3, 0, 0]), **SMALL) as loader:
        wanted = [val.indices[place] for place in (3, 0, 0)]
        assert paths(loader.manifest) == [paths(pictures)[key] for key in wanted]
        (batch,) = loader
        assert batch["record_key"].tolist() == [0, 1, 2]
        assert batch["label"].tolist()[:3] == pictures.frame["label"][wanted].to_list()


def test_what_is_no_subset_of_a_manifest() -> None:
    for data in (5, Subset([1, 2], [0])):
        with pytest.raises(ConfigError, match=r"must be a Manifest, as .*or a Subset of one"):
            Loader(data)
