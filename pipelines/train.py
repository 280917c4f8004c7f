"""Train a classifier of bird species on NABirds: random crops and flips, shuffled, resumable.

A linear layer on a mosaic of 14 x 14 mean colours is a placeholder for your network; with numpy
there is none. `--resume` saves the loader's state to a file; in real training, save it in your
checkpoint.

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
    """The settings to edit; each field is an option of the command line."""

    data: Annotated[str, "NABirds folder, or a metadata.parquet"] = "nabirds"
    framework: Annotated[Literal["torch", "jax", "numpy"], "kind of arrays"] = "torch"
    device: Annotated[str, "auto, cpu, cuda or cuda:1"] = "auto"
    batch_size: Annotated[int, "images in a batch"] = 64
    epochs: Annotated[int, "epochs of the train split"] = 1
    steps: Annotated[int, "most batches of this run; 0 for all epochs"] = 0
    seed: Annotated[int, "seed of all random numbers"] = 0
    resume: Annotated[str, "file to resume from if it exists, and to save to"] = ""


def build(config: Config) -> gpufeed.Loader:
    """Return the feed of the train split, each image cropped to its bird with a margin first."""
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
        mosaic = image.reshape(-1, 14, 16, 14, 16, 3).mean((2, 4)).reshape(-1, 588)
        scores = jax.nn.log_softmax(mosaic @ weights)
        return -(scores * jax.nn.one_hot(label, classes)).sum(1).mean()

    loss_and_gradient = jax.jit(loss_of)

    def step(image: jax.Array, label: jax.Array) -> Any:
        nonlocal weights
        loss, gradient = loss_and_gradient(weights, image, label)
        weights -= 0.02 * gradient
        return loss

    return step


def main(arguments: Sequence[str] | None = None) -> list[float]:
    """Run the command line; return the loss of each step, an empty list with numpy."""
    config = options(Config, __doc__, arguments)
    losses: list[Any] = []  # the framework's scalars, since float() waits for the GPU
    state_file = Path(config.resume) if config.resume else None
    with build(config) as loader:
        if state_file and state_file.exists():
            loader.set_state(state_file.read_bytes())
            print(f"resuming at step {loader.step:,}")
        state = loader.get_state()
        make_step = {"torch": torch_step, "jax": jax_step}.get(config.framework)
        step = make_step(len(loader.manifest.classes)) if make_step else None
        end = len(loader) * config.epochs
        last = min(end, loader.step + config.steps) if config.steps else end
        if loader.step >= end:
            print(f"step {loader.step:,}: all {config.epochs} epochs are done")
        try:
            if state_file:
                state_file.write_bytes(state)  # at once, so that a wrong path fails now
            while loader.step < last:
                for batch in loader:
                    losses += [step(batch["image"], batch["label"])] if step else []
                    state = loader.get_state()  # only after the model has learnt from the batch
                    if loader.step == last:
                        break
                loss = f"loss {float(losses[-1]):.3f}, " if losses else ""
                rate, waiting = loader.stats.images_per_second, loader.stats.waiting_share
                print(f"step {loader.step:,}: {loss}{rate:,.0f} images/s, {waiting:.0%} waiting")
                state = loader.get_state()
        finally:
            if state_file and state_file.parent.is_dir():
                state_file.write_bytes(state)  # also after Ctrl-C
    return [float(loss) for loss in losses]


if __name__ == "__main__":
    run(main)
