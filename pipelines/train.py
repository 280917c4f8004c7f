"""Train a classifier of bird species on NABirds: random crops and flips, shuffled, resumable.

A linear layer over a mosaic of 14 x 14 mean colours stands in for your network; with numpy there is
none. The file `--resume` keeps where the feed stands; in earnest that goes into your checkpoint.

    python -m pipelines.train --data nabirds/ --framework torch
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import gpufeed
from pipelines.command import options, run


@dataclass(frozen=True)
class Config:
    """What to edit; each field is an option of the command line."""

    data: Annotated[str, "the folder of NABirds, or a metadata.parquet"] = "nabirds"
    framework: Annotated[Literal["torch", "jax", "numpy"], "whose arrays to make"] = "torch"
    device: Annotated[str, "auto, cpu, cuda or cuda:1"] = "auto"
    batch_size: Annotated[int, "images in a batch"] = 64
    epochs: Annotated[int, "times through the train split"] = 1
    steps: Annotated[int, "the most batches of this run; 0: to the last epoch's end"] = 0
    seed: Annotated[int, "of everything random"] = 0
    resume: Annotated[str, "file to go on from where it exists, and to save to"] = ""


def build(config: Config) -> gpufeed.Loader:
    """Return the feed of the train split, each bird cut out with a margin first."""
    birds = gpufeed.read_nabirds(config.data, labels="species").split("train")
    epochs, seed = config.epochs, config.seed
    return gpufeed.Loader(
        birds,
        sampler=gpufeed.IndexSampler(len(birds), shuffle=True, seed=seed, num_epochs=epochs),
        transforms=[gpufeed.BoxCrop(margin=0.2), *gpufeed.presets.train(224)],
        batch_size=config.batch_size,
        device=config.device,
        framework=config.framework,
    )


def torch_step(classes: int) -> Callable[[Any, Any], Any]:
    """Return step(image, label) -> loss."""
    import torch

    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(588, classes))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)

    def step(image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        mosaic = image.reshape(-1, 3, 14, 16, 14, 16).mean((3, 5))
        loss: Any = torch.nn.functional.cross_entropy(net.to(image.device)(mosaic), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return torch.as_tensor(loss.detach())

    return step


def jax_step(classes: int) -> Callable[[Any, Any], Any]:
    """Return step(image, label) -> loss."""
    import jax

    weights = jax.numpy.zeros((588, classes))

    @jax.value_and_grad
    def loss_of(weights: jax.Array, image: jax.Array, label: jax.Array) -> jax.Array:
        mosaic = image.reshape(-1, 3, 14, 16, 14, 16).mean((3, 5)).reshape(-1, 588)
        scores = jax.nn.log_softmax(mosaic @ weights)
        return -(scores * jax.nn.one_hot(label, classes)).sum(1).mean()

    slope_of = jax.jit(loss_of)

    def step(image: jax.Array, label: jax.Array) -> Any:
        nonlocal weights
        loss, slope = slope_of(weights, image, label)
        weights -= 0.02 * slope
        return loss

    return step


def main(arguments: Sequence[str] | None = None) -> list[float]:
    """Run the command line; returns the loss of each step, with numpy none."""
    config = options(Config, __doc__, arguments)
    losses: list[Any] = []  # the framework's own scalars, since float() waits for the GPU
    kept = Path(config.resume) if config.resume else None
    with build(config) as loader:
        if kept and kept.exists():
            loader.set_state(kept.read_bytes())
            print(f"going on at step {loader.step:,}")
        state = loader.get_state()
        make = {"torch": torch_step, "jax": jax_step}.get(config.framework)
        step = make(len(loader.manifest.classes)) if make else None
        end = len(loader) * config.epochs
        last = min(end, loader.step + config.steps) if config.steps else end
        if loader.step >= end:
            print(f"step {loader.step:,}: all {config.epochs} epochs are done")
        try:
            if kept:
                kept.write_bytes(state)  # now, so that a wrong path is found out now
            while loader.step < last:
                for batch in loader:
                    losses += [step(batch["image"], batch["label"])] if step else []
                    state = loader.get_state()  # after the step: what it stands for is learnt
                    if loader.step == last:
                        break
                shown = f"loss {float(losses[-1]):.3f}, " if losses else ""
                rate, waiting = loader.stats.images_per_second, loader.stats.waiting_share
                print(f"step {loader.step:,}: {shown}{rate:,.0f} images/s, {waiting:.0%} waiting")
                state = loader.get_state()
        finally:
            if kept and kept.parent.is_dir():
                kept.write_bytes(state)  # also after Ctrl-C
    return [float(loss) for loss in losses]


if __name__ == "__main__":
    run(main)
