"""A Loader in Accelerate."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gpufeed import Loader, Manifest, SequentialSampler
from tests.support.loaders import digest, make

if find_spec("accelerate") is None:
    pytest.skip("accelerate is not installed", allow_module_level=True)

import torch


def make_accelerator() -> Any:
    from accelerate import Accelerator  # takes seconds, in each process that collects tests

    return Accelerator(cpu=True)


def make_loader(manifest: Manifest) -> Loader:
    return make(manifest, framework="torch", batch_size=4)


def test_preparing_leaves_a_loader_as_it_is(small: Manifest) -> None:
    accelerator = make_accelerator()
    model = torch.nn.Linear(3 * 24 * 24, 3)
    with make_loader(small) as loader:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model, optimizer, prepared = accelerator.prepare(model, optimizer, loader)
        assert prepared is loader
        seen = []
        for epoch in range(2):
            prepared.set_epoch(epoch)
            for batch in prepared:
                seen.append(digest(batch))
                with accelerator.accumulate(model):
                    scores = model(batch["image"].flatten(1))
                    loss = torch.nn.functional.cross_entropy(scores, batch["label"])
                    accelerator.backward(loss)
                    optimizer.step()
        assert seen == [digest(loader.batch(step)) for step in range(12)]


def test_states_hold_the_position(small: Manifest, tmp_path: Path) -> None:
    accelerator = make_accelerator()
    with make_loader(small) as loader, make_loader(small) as resumed:
        loader.seek(6)
        for _ in zip(range(3), loader, strict=False):
            pass
        accelerator.register_for_checkpointing(loader)
        accelerator.save_state(tmp_path)
        accelerator = make_accelerator()
        accelerator.register_for_checkpointing(resumed)
        accelerator.load_state(tmp_path)
        resumed.set_epoch(1)
        assert resumed.step == loader.step == 9


def test_metrics_are_of_each_record_once(small: Manifest) -> None:
    accelerator = make_accelerator()
    loader = make(
        small,
        framework="torch",
        batch_size=4,
        sampler=SequentialSampler(len(small)),
        last_batch="pad",
    )
    keys: list[int] = []
    with loader:
        for batch in accelerator.prepare(loader):
            rows, valid = accelerator.gather_for_metrics((batch["record_key"], batch["valid"]))
            keys += rows[valid].tolist()
    assert keys == list(range(26))


def test_skipping_is_the_loaders_own(small: Manifest) -> None:
    from accelerate import skip_first_batches

    with make_loader(small) as loader:
        with pytest.raises(AttributeError, match=r"no dataset: its records are loader\.manifest; "):
            skip_first_batches(loader, 2)
        loader.skip(2)
        assert digest(next(iter(loader))) == digest(loader.batch(2))
