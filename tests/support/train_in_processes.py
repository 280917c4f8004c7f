"""What the processes of tests/integrations/test_two_processes.py do: train, by several trainers.

python -m tests.support.train_in_processes TABLE OUT

Lightning starts its processes itself. Accelerate, Fabric and transformers run in processes that
torchrun's agent forks from this one, since importing them takes far longer than what they do.
TABLE is a file that `write_table` wrote. Each process writes one JSON file for each way of starting
below OUT: by run, its batches.
"""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import os
import re
import sys
from pathlib import Path
from typing import Any

import torch

from gpufeed import Loader, Manifest, Resize, ToDtype
from tests.support.feed_a_shard import PATIENCE, Row, rows
from tests.support.loaders import make
from tests.support.media import read_table
from tests.support.processes import fork_as_torchrun

if __name__ == "__main__":  # tests take only the loaders, and this takes seconds
    import accelerate
    import transformers
    from lightning.fabric import Fabric
    from lightning.pytorch import LightningDataModule, LightningModule, Trainer
    from lightning.pytorch.callbacks import ModelCheckpoint

BATCH = 4
EPOCHS = 2
SAVED_AT = 3
"""Batches trained on when a checkpoint is saved: in the middle of the first epoch."""

Seen = dict[str, list[list[Row]]]


def train_loader(manifest: Manifest, batch_size: int = BATCH) -> Loader:
    return make(manifest, framework="torch", batch_size=batch_size, last_batch="pad", num_threads=1)


def evaluation_loader(manifest: Manifest, batch_size: int = BATCH, **options: Any) -> Loader:
    return Loader.for_evaluation(
        manifest,
        **options,
        transforms=[Resize((24, 24)), ToDtype("float32")],
        framework="torch",
        batch_size=batch_size,
        device="cpu",
        num_threads=1,
    )


def make_model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 24 * 24, 3))


def loss_of(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])


def train_lightning(manifest: Manifest, out: Path) -> Seen:
    """A run, one that goes on from its checkpoint, and one in forked processes."""

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = make_model()
            self.seen: list[tuple[str, list[Row]]] = []

        def training_step(self, batch: dict[str, Any]) -> torch.Tensor:
            self.seen.append((self.trainer.state.stage.value, rows(batch)))
            return loss_of(self.model, batch)

        def validation_step(self, batch: dict[str, Any]) -> None:
            self.training_step(batch)

        def on_train_end(self) -> None:
            if multiprocessing.parent_process():  # what is forked takes its memory with it
                seen = [each for _, each in self.seen]
                (out / f"forked-{self.global_rank}").write_text(json.dumps(seen))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    class Data(LightningDataModule):
        def train_dataloader(self) -> Loader:
            return train_loader(manifest)

    def fit(
        *data: Any, saver: Any = None, strategy: str = "ddp", **options: Any
    ) -> list[tuple[str, list[Row]]]:
        module = Module()
        Trainer(
            strategy=strategy,
            accelerator="cpu",
            devices=2,
            max_epochs=EPOCHS,
            logger=False,
            callbacks=saver,
            enable_checkpointing=saver is not None,
            enable_progress_bar=False,
            enable_model_summary=False,
        ).fit(module, *data, **options)
        return module.seen

    if "LOCAL_RANK" not in os.environ:
        fit(datamodule=Data(), strategy="ddp_fork")
    # Made before there are two processes. The later ones are made when there are.
    train, held_out = train_loader(manifest), evaluation_loader(manifest)
    assert "RANK" not in os.environ
    assert not torch.distributed.is_initialized()
    saver = ModelCheckpoint(out, "{step}", every_n_train_steps=SAVED_AT, save_top_k=-1)
    fitted = fit(train, held_out, saver=saver)
    resumed = fit(train_loader(manifest), ckpt_path=out / f"step={SAVED_AT}.ckpt")
    stages = ("train", "sanity_check", "validate")
    seen = {stage: [each for at, each in fitted if at == stage] for stage in stages}
    seen["resumed"] = [each for _, each in resumed]
    seen["forked"] = json.loads((out / f"forked-{torch.distributed.get_rank()}").read_text())
    return seen


def train_accelerate(manifest: Manifest, out: Path) -> Seen:
    """Training, metrics, and training that goes on from a state."""
    accelerator = accelerate.Accelerator(cpu=True)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train = train_loader(manifest)
    model, optimizer, train = accelerator.prepare(model, optimizer, train)
    accelerator.register_for_checkpointing(train)
    seen: Seen = {"train": [], "metrics": []}
    for _ in range(EPOCHS):
        for batch in train:
            seen["train"].append(rows(batch))
            accelerator.backward(loss_of(model, batch))
            optimizer.step()
            optimizer.zero_grad()
            if train.step == SAVED_AT:
                accelerator.save_state(str(out / "accelerate"))
    for batch in accelerator.prepare(evaluation_loader(manifest)):
        # Every process's records, in every process.
        gathered = accelerator.gather_for_metrics(batch)
        seen["metrics"].append(rows(gathered))
    accelerator.load_state(str(out / "accelerate"))
    seen["resumed"] = [rows(batch) for batch in train]
    return seen


def train_fabric(manifest: Manifest, out: Path) -> Seen:
    fabric = Fabric(accelerator="cpu", strategy="ddp", devices=2)
    fabric.launch()
    model = make_model()
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.01))
    train, seen = train_loader(manifest), []
    for batch in train:
        seen.append(rows(batch))
        fabric.backward(loss_of(model, batch))
        optimizer.step()
        if train.step == SAVED_AT:
            fabric.save(out / "fabric", {"model": model, "loader": train})
    resumed = train_loader(manifest)
    fabric.load(out / "fabric", {"model": model, "loader": resumed})
    return {"train": seen, "resumed": [rows(batch) for batch in resumed]}


def train_transformers(manifest: Manifest, out: Path) -> Seen:
    """By the code that docs/how-to/trainers.md shows."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "trainers.md").read_text()
    (recipe,) = re.findall(r"^```python\n(class LoaderTrainer.*?)^```", page, re.M | re.S)
    seen: Seen = {}

    class Model(torch.nn.Module):
        def __init__(self, run: str) -> None:
            super().__init__()
            self.model = make_model()
            self.run = run

        def forward(self, image: torch.Tensor, label: torch.Tensor, **rest: Any) -> Any:
            run = self.run if self.training else "evaluate"
            seen.setdefault(run, []).append(rows({"image": image, "label": label, **rest}))
            scores = self.model(image)
            return {"loss": torch.nn.functional.cross_entropy(scores, label), "logits": scores}

    def fit(run: str, resume: str | None = None, **options: Any) -> Any:
        args = transformers.TrainingArguments(
            output_dir=str(out / "transformers"),
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=BATCH,
            num_train_epochs=EPOCHS,
            use_cpu=True,
            report_to="none",
            logging_strategy="no",
            disable_tqdm=True,
            ignore_data_skip=True,
            label_names=["label", "valid", "record_key"],
            **options,
        )
        names = {"transformers": transformers, "model": Model(run), "args": args}
        names |= {"train": train_loader(manifest), "held_out": evaluation_loader(manifest)}
        exec(recipe, names)  # noqa: S102 - the page's own code
        names["trainer"].train(resume_from_checkpoint=resume)
        return names["trainer"]

    trainer = fit("train", save_steps=SAVED_AT)
    predicted = trainer.predict(trainer.eval_dataset)
    _, valid, keys = predicted.label_ids
    seen["predicted"] = [keys[valid].tolist()]
    fit("resumed", str(out / "transformers" / f"checkpoint-{SAVED_AT}"), save_strategy="no")
    return seen


def train(how: str, table: Path, out: Path) -> None:
    # A collective that waits for ever holds no lock of Python's, but does not return to it either.
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    manifest = read_table(table)
    trainers = {
        "lightning": [train_lightning],
        "torchrun": [train_accelerate, train_fabric, train_transformers],
    }
    seen = {each.__name__.removeprefix("train_"): each(manifest, out) for each in trainers[how]}
    shard = [torch.distributed.get_rank(), torch.distributed.get_world_size()]
    written = {"how": how, "shard": shard, "seen": seen}
    (out / f"{how}-{os.getpid()}.json").write_text(json.dumps(written))


if __name__ == "__main__":
    paths = [Path(argument) for argument in sys.argv[1:]]
    if "LOCAL_RANK" not in os.environ:  # Lightning's second process runs this script again
        fork_as_torchrun(train, "torchrun", *paths)
    train("lightning", *paths)
