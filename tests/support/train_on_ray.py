"""What tests/integrations/test_ray.py runs: two workers of Ray Train, which fail once and go on.

python -m tests.support.train_on_ray TABLE OUT

TABLE is a file that `write_table` wrote. Each worker writes one JSON file below OUT for each time
it is started.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
import torch
from ray import train
from ray.train.torch import TorchTrainer, prepare_model

from tests.support.feed_a_shard import rows
from tests.support.media import read_table
from tests.support.train_in_processes import EPOCHS, SAVED_AT, loss_of, make_model, train_loader


def train_worker(config: dict[str, Any]) -> None:
    """Train to the end, or to the first checkpoint, after which the worker fails."""
    loader = train_loader(config["manifest"])
    context, seen = train.get_context(), []
    shard = [context.get_world_rank(), context.get_world_size()]
    model = prepare_model(make_model())
    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            loader.load_state_dict(torch.load(Path(folder) / "saved.pt")["loader"])
    for batch in loader.forever():
        seen.append(rows(batch))
        loss_of(model, batch).backward()
        if loader.step == SAVED_AT:
            with tempfile.TemporaryDirectory() as folder:
                torch.save({"loader": loader.state_dict()}, Path(folder) / "saved.pt")
                saved = train.Checkpoint.from_directory(folder) if shard[0] == 0 else None
                train.report({"step": loader.step}, checkpoint=saved)
        if loader.step in (SAVED_AT, EPOCHS * len(loader)):
            break
    written = {"shard": shard, "resumed": bool(checkpoint), "seen": seen}
    (Path(config["out"]) / f"{os.getpid()}.json").write_text(json.dumps(written))
    if not checkpoint:
        torch.distributed.barrier()  # Ray ends the other worker
        raise RuntimeError("the worker fails, as is meant here")


def main(table: Path, out: Path) -> None:
    ray.init(num_cpus=2, include_dashboard=False)
    TorchTrainer(
        train_worker,
        train_loop_config={"manifest": read_table(table), "out": str(out)},
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(
            name="run",
            storage_path=str(out / "storage"),
            failure_config=train.FailureConfig(max_failures=1),
        ),
    ).fit()
    ray.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
