"""A Loader in transformers' Trainer, by the very code that docs/how-to/trainers.md shows."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gpufeed import Loader, Manifest, SequentialSampler
from tests.support.loaders import digest, make

if not all(map(find_spec, ("accelerate", "transformers"))):
    pytest.skip("not both of the libraries are installed", allow_module_level=True)

import torch

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "trainers.md").read_text()
(RECIPE,) = re.findall(r"^```python\n(class LoaderTrainer.*?)^```", PAGE, re.M | re.S)
EPOCHS = 3
STEPS = 6
BATCH = 4


class Recorder(torch.nn.Module):
    """A model that notes the batches it is given in training."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3 * 24 * 24, 3)
        self.seen: list[str] = []

    def forward(self, image: torch.Tensor, label: torch.Tensor, **rest: Any) -> Any:
        if self.training:
            self.seen.append(digest({"image": image, "label": label, **rest}))
        scores = self.layer(image.flatten(1))
        return {"loss": torch.nn.functional.cross_entropy(scores, label), "logits": scores}


def train_loader(manifest: Manifest) -> Loader:
    return make(manifest, framework="torch", batch_size=BATCH)


def evaluation_loader(manifest: Manifest) -> Loader:
    sampler = SequentialSampler(len(manifest))
    return make(
        manifest,
        framework="torch",
        batch_size=BATCH,
        sampler=sampler,
        last_batch="partial",
        restart=True,
    )


def make_trainer(train: Loader, held_out: Loader, folder: Path, **options: Any) -> Any:
    """The trainer that the page makes."""
    import transformers  # takes seconds, in each process that collects tests

    args = transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        use_cpu=True,
        report_to="none",
        logging_strategy="no",
        disable_tqdm=True,
        **options,
    )
    names = {"transformers": transformers, "model": Recorder(), "args": args}
    names |= {"train": train, "held_out": held_out}
    exec(RECIPE, names)  # noqa: S102 - the page's own code
    return names["trainer"]


def batches(manifest: Manifest) -> list[str]:
    """Digests of a run's batches, each made from its number alone."""
    with train_loader(manifest) as loader:
        assert len(loader) == STEPS
        return [digest(loader.batch(step)) for step in range(EPOCHS * STEPS)]


def run(manifest: Manifest, folder: Path, resume: str | None = None, **options: Any) -> list[str]:
    with train_loader(manifest) as train, evaluation_loader(manifest) as held_out:
        trainer = make_trainer(train, held_out, folder, **options)
        trainer.train(resume_from_checkpoint=resume and str(folder / resume))
        return trainer.model.seen


@pytest.mark.parametrize(
    ("accumulated", "saved_at"), [(1, 6), (2, 8)], ids=["at an epoch's end", "within an epoch"]
)
def test_a_run_goes_on_from_its_checkpoint(
    accumulated: int, saved_at: int, small: Manifest, tmp_path: Path
) -> None:
    options = {"gradient_accumulation_steps": accumulated, "ignore_data_skip": True}
    update = saved_at // accumulated
    whole = batches(small)
    saves = {"save_steps": update, "eval_strategy": "epoch", "max_steps": update}
    assert run(small, tmp_path, **options, **saves) == whole[:saved_at]
    resumed = run(small, tmp_path, f"checkpoint-{update}", save_strategy="no", **options)
    assert resumed == whole[saved_at:]


def test_what_resuming_needs_is_said(small: Manifest, tmp_path: Path) -> None:
    """Without the argument, at the end of an epoch there is nothing to skip, and no need of it."""
    whole = batches(small)
    assert run(small, tmp_path, save_steps=1, max_steps=7) == whole[:7]
    assert run(small, tmp_path, "checkpoint-6", save_strategy="no") == whole[6:]
    with pytest.raises(AttributeError, match=r"with seek\(\), as docs/how-to/trainers.md"):
        run(small, tmp_path, "checkpoint-7", save_strategy="no")


def test_evaluation_is_given_each_record_once(small: Manifest, tmp_path: Path) -> None:
    with train_loader(small) as train, evaluation_loader(small) as held_out:
        trainer = make_trainer(train, held_out, tmp_path)
        for _ in range(2):
            assert trainer.evaluate()["eval_loss"] > 0
            assert trainer.predict(held_out).label_ids.tolist() == small.frame["label"].to_list()
