"""A Loader in Fabric."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from gpufeed import Loader, Manifest
from tests.support.loaders import digest, make

if find_spec("lightning") is None:
    pytest.skip("lightning is not installed", allow_module_level=True)

import torch


def make_loader(manifest: Manifest) -> Loader:
    return make(manifest, framework="torch", batch_size=4)


def test_a_loader_is_iterated_and_saved_as_it_is(small: Manifest, tmp_path: Path) -> None:
    from lightning.fabric import Fabric  # takes seconds, in each process that collects tests

    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    model = torch.nn.Linear(3 * 24 * 24, 3)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.01))
    with make_loader(small) as loader, make_loader(small) as resumed:
        seen = []
        for batch in loader:
            seen.append(digest(batch))
            scores = model(batch["image"].flatten(1))
            fabric.backward(torch.nn.functional.cross_entropy(scores, batch["label"]))
            optimizer.step()
            if loader.step == 3:
                fabric.save(tmp_path / "checkpoint", {"model": model, "loader": loader})
        assert seen == [digest(loader.batch(step)) for step in range(6)]
        fabric.load(tmp_path / "checkpoint", {"model": model, "loader": resumed})
        assert [digest(batch) for batch in resumed] == seen[3:]


def test_fabric_sets_up_dataloaders_only(small: Manifest) -> None:
    """A loader needs neither another sampler nor its batches moved."""
    from lightning.fabric import Fabric  # takes seconds, in each process that collects tests

    fabric = Fabric(accelerator="cpu", devices=1)
    with make_loader(small) as loader, pytest.raises(TypeError, match="Only PyTorch DataLoader"):
        fabric.setup_dataloaders(loader)
