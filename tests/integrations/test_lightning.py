"""A Loader in Lightning: the batches that a DataLoader with the same order would give."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gpufeed import IndexSampler, Loader, Manifest, Sampler, SequentialSampler
from tests.support.loaders import digest, make

if find_spec("lightning") is None:
    pytest.skip("lightning is not installed", allow_module_level=True)

import torch

from tests.support.control import BATCH, control

if TYPE_CHECKING:
    from lightning.pytorch import LightningDataModule, Trainer
    from lightning.pytorch.utilities import CombinedLoader

EPOCHS = 3
STEPS = 6

pytestmark = [
    # Lightning's own use of what torch has deprecated.
    pytest.mark.filterwarnings(
        r"ignore:`isinstance\(treespec, LeafSpec\)` is deprecated:FutureWarning"
    ),
    # A run that goes on saves nothing, so it has no ModelCheckpoint whose figures to restore.
    pytest.mark.filterwarnings(
        "ignore:Be aware that when using `ckpt_path`, callbacks:UserWarning"
    ),
    # Advice, most of it about torch's workers.
    pytest.mark.filterwarnings(
        "ignore::lightning.fabric.utilities.warnings.PossibleUserWarning",
    ),
]


class StoppedError(Exception):
    """What ends a run that is stopped, in the middle of a step."""


@cache
def models() -> SimpleNamespace:
    """Made when a test needs them: each process collects all tests, and Lightning takes seconds."""
    from lightning.pytorch import LightningModule

    class Recorder(LightningModule):
        """A model that notes the records it is given, and fails at training batch number `stop`."""

        def __init__(self, stop: int | None = None) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3 * 24 * 24, 3)
            self.stop = stop
            self.seen: list[tuple[str, int, list[int]]] = []
            self.digests: list[str] = []

        def note(self, batch: dict[str, Any], place: int) -> torch.Tensor:
            self.seen.append((self.trainer.state.stage.value, place, batch["record_key"].tolist()))
            return self.layer(batch["image"].flatten(1))

        def training_step(self, batch: dict[str, Any], batch_idx: int) -> torch.Tensor:
            if len(self.digests) == self.stop:
                raise StoppedError
            self.digests.append(digest(batch))
            return torch.nn.functional.cross_entropy(self.note(batch, batch_idx), batch["label"])

        def validation_step(self, batch: dict[str, Any], batch_idx: int) -> None:
            self.note(batch, batch_idx)

        test_step = validation_step

        def predict_step(self, batch: dict[str, Any], batch_idx: int) -> torch.Tensor:
            self.note(batch, batch_idx)
            return batch["record_key"]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    class Pairs(Recorder):
        """A model of two loaders."""

        def training_step(self, batch: dict[str, Any], batch_idx: int) -> torch.Tensor:
            super().training_step(batch["many"], batch_idx)
            return super().training_step(batch["few"], batch_idx)

    return SimpleNamespace(Recorder=Recorder, Pairs=Pairs)


def make_trainer(*callbacks: Any, **options: Any) -> Trainer:
    from lightning.pytorch import Trainer

    return Trainer(
        accelerator="cpu",
        logger=False,
        callbacks=list(callbacks),
        enable_checkpointing=bool(callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"max_epochs": EPOCHS, **options},
    )


def checkpoints(**options: Any) -> Any:
    from lightning.pytorch.callbacks import ModelCheckpoint

    return ModelCheckpoint(**options)


def shuffled(manifest: Manifest) -> Sampler:
    return IndexSampler(len(manifest), shuffle=True, seed=3)


def train_loader(manifest: Manifest, **options: Any) -> Loader:
    settled = {"sampler": shuffled(manifest), "batch_size": BATCH, "framework": "torch"}
    return make(manifest, **{**settled, **options})


def evaluation_loader(manifest: Manifest) -> Loader:
    sampler = SequentialSampler(len(manifest))
    return train_loader(manifest, sampler=sampler, last_batch="partial", restart=True)


def fitted(*data: Any, **options: Any) -> list[tuple[str, int, list[int]]]:
    module = models().Recorder()
    make_trainer(**options).fit(module, *data)
    return module.seen


@pytest.mark.parametrize(
    "options",
    [
        {"limit_train_batches": 2},
        {"limit_train_batches": 0.75, "accumulate_grad_batches": 3},
        {"reload_dataloaders_every_n_epochs": 1},
        {"fast_dev_run": 2},
    ],
    ids=str,
)
def test_training_is_given_what_a_dataloader_gives(small: Manifest, options: Any) -> None:
    expected = fitted(control(shuffled(small)), **options)
    with train_loader(small) as loader:
        assert fitted(loader, **options) == expected


@pytest.mark.filterwarnings("ignore:You requested to overfit but enabled train:UserWarning")
def test_overfitting_is_given_the_same_batches_in_every_epoch(small: Manifest) -> None:
    expected = fitted(control(shuffled(small)), overfit_batches=2)
    assert [keys for _, _, keys in expected] == [[0, 1, 2, 3], [4, 5, 6, 7]] * EPOCHS
    with train_loader(small, sampler=SequentialSampler(len(small))) as loader:
        assert fitted(loader, overfit_batches=2) == expected


def test_a_run_begins_anew_whatever_was_iterated_before(small: Manifest) -> None:
    """A look at a batch, and a run that ended in the middle of an epoch."""
    with train_loader(small) as loader:
        next(iter(loader))
        first = fitted(loader, max_epochs=-1, max_steps=8)
        assert loader.step == 8
        loader.batch_sampler.sampler.set_epoch(2)  # a run that ended before its first batch
        assert loader.step == 2 * STEPS
        assert fitted(loader, max_epochs=-1, max_steps=8) == first
        assert loader.step == 8
    assert first == fitted(control(shuffled(small)), max_epochs=-1, max_steps=8)


def test_a_position_that_was_chosen_is_kept(small: Manifest) -> None:
    """A trainer without a checkpoint, and a loader that resumes by itself."""
    with train_loader(small) as loader:
        loader.seek(2 * STEPS + 4)
        seen = fitted(loader, max_epochs=2)
        assert loader.step == 4 * STEPS
        rows = [loader.batch(step)["record_key"].tolist() for step in range(16, 24)]
    assert [keys for _, _, keys in seen] == rows


# --------------------------------------------------------------------- evaluation


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"val_check_interval": 0.5, "limit_val_batches": 3},
        {"check_val_every_n_epoch": 2},
        {"limit_train_batches": 2, "limit_val_batches": 0.5},
    ],
    ids=str,
)
def test_validation_is_given_what_a_dataloader_gives(small: Manifest, options: Any) -> None:
    order = SequentialSampler(len(small))
    expected = fitted(control(shuffled(small)), control(order, drop_last=False), **options)
    assert {"sanity_check", "train", "validate"} >= {stage for stage, _, _ in expected}
    with train_loader(small) as train, evaluation_loader(small) as held_out:
        assert fitted(train, held_out, **options) == expected


@pytest.mark.parametrize("use", ["validate", "test", "predict"])
def test_evaluation_is_given_what_a_dataloader_gives(small: Manifest, use: str) -> None:
    """Also after an evaluation whose limit leaves the loader in the middle of an epoch."""

    def evaluated(data: Any) -> Any:
        module, results = models().Recorder(), []
        for limit in (2, 1.0):
            trainer = make_trainer(**{f"limit_{use.removesuffix('idate')}_batches": limit})
            result = getattr(trainer, use)(module, data)
            results += [each.tolist() for each in result] if use == "predict" else result
        return module.seen, results

    expected = evaluated(control(SequentialSampler(len(small)), drop_last=False))
    assert len(expected[0]) == 2 + STEPS + 1
    with evaluation_loader(small) as loader:
        assert evaluated(loader) == expected


# ----------------------------------------------------------------- several loaders


def cycled(few: Loader, many: Loader) -> CombinedLoader:
    from lightning.pytorch.utilities import CombinedLoader

    return CombinedLoader({"few": few, "many": many}, "max_size_cycle")


def test_a_short_loader_goes_on_from_epoch_to_epoch(small: Manifest, tmp_path: Path) -> None:
    """It comes several times in an epoch of the long one, and is new each time."""
    some = small.filter(small.frame["label"] < 2)
    with train_loader(some) as few, train_loader(small) as many:
        assert (len(few), len(many)) == (4, STEPS)
        steps = range(EPOCHS * STEPS)
        expected = [digest(each.batch(step)) for step in steps for each in (many, few)]
        module = models().Pairs(stop=2 * (STEPS + 2))
        saver = checkpoints(dirpath=tmp_path, every_n_train_steps=STEPS - 1)
        with pytest.raises(StoppedError):
            make_trainer(saver).fit(module, cycled(few, many))
    assert module.digests == expected[: module.stop]
    (checkpoint,) = tmp_path.iterdir()
    with train_loader(some) as few, train_loader(small) as many:
        resumed = models().Pairs()
        make_trainer().fit(resumed, cycled(few, many), ckpt_path=checkpoint)
    assert resumed.digests == expected[2 * (STEPS - 1) :]


# --------------------------------------------------------------------- checkpoints


def make_data(loader: Loader) -> LightningDataModule:
    """A data module that carries the loader's state."""
    from lightning.pytorch import LightningDataModule

    class Data(LightningDataModule):
        def train_dataloader(self) -> Loader:
            return loader

        def state_dict(self) -> dict[str, Any]:
            return loader.state_dict()

        def load_state_dict(self, state: dict[str, Any]) -> None:
            loader.load_state_dict(state)

    return Data()


@pytest.fixture(scope="module")
def uninterrupted(small: Manifest) -> list[str]:
    with train_loader(small) as loader:
        assert len(loader) == STEPS
        return [digest(loader.batch(step)) for step in range(EPOCHS * STEPS)]


AT_THE_END = {"every_n_epochs": 1, "save_on_train_epoch_end": True}
AFTER_VALIDATION = {"every_n_epochs": 1, "save_on_train_epoch_end": False}


@pytest.mark.parametrize(
    ("saves", "limit", "saved_at", "in_module"),
    [
        ({"every_n_train_steps": 9}, STEPS, 9, False),
        ({"every_n_train_steps": 9}, STEPS, 9, True),
        ({"every_n_train_steps": 6}, STEPS, 6, False),
        (AT_THE_END, STEPS, 6, False),
        (AT_THE_END, STEPS, 6, True),
        (AFTER_VALIDATION, STEPS, 6, False),
        ({"every_n_train_steps": 5}, 4, 5, False),
        ({"every_n_train_steps": 4}, 4, 4, False),
        (AT_THE_END, 4, 4, True),
        (AFTER_VALIDATION, 4, 4, False),
    ],
)
def test_a_run_goes_on_from_its_checkpoint(
    saves: dict[str, Any],
    limit: int,
    saved_at: int,
    in_module: bool,
    small: Manifest,
    uninterrupted: list[str],
    tmp_path: Path,
) -> None:
    """From the checkpoint before the one batch that was trained on in vain."""
    whole = [
        uninterrupted[epoch * STEPS + place] for epoch in range(EPOCHS) for place in range(limit)
    ]

    def fit(module: Any, loader: Loader, held_out: Loader, *callbacks: Any, **more: Any):
        trainer = make_trainer(*callbacks, limit_train_batches=limit)
        if in_module:
            data = make_data(loader)
            data.val_dataloader = lambda: held_out
            trainer.fit(module, datamodule=data, **more)
        else:
            trainer.fit(module, loader, held_out, **more)

    stopped = models().Recorder(stop=saved_at + 1)
    with (
        train_loader(small, prefetch=5) as loader,
        evaluation_loader(small) as held_out,
        pytest.raises(StoppedError),
    ):
        fit(stopped, loader, held_out, checkpoints(dirpath=tmp_path, **saves))
    assert stopped.digests == whole[: saved_at + 1]
    (checkpoint,) = tmp_path.iterdir()
    resumed = models().Recorder()
    with (
        train_loader(small, num_threads=1, prefetch=1) as loader,
        evaluation_loader(small) as held_out,
    ):
        fit(resumed, loader, held_out, ckpt_path=checkpoint)
    assert resumed.digests == whole[saved_at:]
    places = [place for stage, place, _ in resumed.seen if stage == "train"]
    assert places == [step % limit for step in range(saved_at, EPOCHS * limit)]
