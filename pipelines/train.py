"""Train a classifier of bird species on NABirds: random crops and flips, shuffled, resumable.

A small network stands in for yours; with numpy there is none, and the pictures are only fed. The
file `--resume` keeps where the feed stands; in earnest that goes into your model's checkpoint.

    python -m pipelines.train --data nabirds/ --framework torch
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import gpufeed


@dataclasses.dataclass(frozen=True)
class Config:
    """What to edit; each field is an option of the command line."""

    data: str = "nabirds"
    framework: Literal["torch", "jax", "numpy"] = "torch"
    device: str = "auto"
    batch_size: int = 64
    epochs: int = 1
    steps: int = 0  # the most steps of this run; 0 goes on to the last epoch's end
    log_every: int = 10
    seed: int = 0
    resume: str = ""  # a file: the feed goes on from it where it exists, and is saved to it


def build(config: Config) -> gpufeed.Loader:
    """Return the feed of the train split, each bird cut out with a margin first."""
    birds = gpufeed.read_nabirds(config.data, labels="species").split("train")
    presets, n, seed = gpufeed.presets, len(birds), config.seed
    layout: Literal["NHWC", "NCHW"] = "NHWC" if config.framework == "jax" else "NCHW"
    return gpufeed.Loader(
        birds,
        sampler=gpufeed.IndexSampler(n, shuffle=True, seed=seed, num_epochs=config.epochs),
        transforms=[gpufeed.BoxCrop(margin=0.2), *presets.train(224, layout=layout)],
        batch_size=config.batch_size,
        device=config.device,
        framework=config.framework,
    )


def torch_model(classes: int) -> tuple[Any, Any]:
    """Return a network and step(network, image, label) -> (network, loss)."""
    import torch
    from torch import nn

    layers = [nn.Conv2d(3, 64, 4, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    net = nn.Sequential(*layers, nn.Linear(64, classes))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

    def step(net: Any, image: torch.Tensor, label: torch.Tensor) -> tuple[Any, Any]:
        loss: Any = nn.functional.cross_entropy(net.to(image.device)(image), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return net, loss.detach()

    return net, step


def jax_model(classes: int) -> tuple[Any, Any]:
    """Return weights and step(weights, image, label) -> (weights, loss)."""
    import jax

    init, keys = jax.nn.initializers.lecun_normal(), jax.random.split(jax.random.key(0))
    weights = (init(keys[0], (4, 4, 3, 64)), init(keys[1], (64, classes)))

    def loss_of(weights: Any, image: jax.Array, label: jax.Array) -> jax.Array:
        order = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(image, weights[0], (4, 4), "VALID", None, None, order)
        scores = jax.nn.log_softmax(jax.nn.relu(x).mean((1, 2)) @ weights[1])
        return -(scores * jax.nn.one_hot(label, classes)).sum(1).mean()

    @jax.jit
    def step(weights: Any, image: jax.Array, label: jax.Array) -> tuple[Any, Any]:
        loss, slopes = jax.value_and_grad(loss_of)(weights, image, label)
        return jax.tree.map(lambda w, slope: w - 0.5 * slope, weights, slopes), loss

    return weights, step


def main(arguments: Sequence[str] | None = None) -> list[float]:
    """Run the command line; returns the loss of each step, with numpy none."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for field in dataclasses.fields(Config):
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(option, type=type(field.default), default=field.default)
    config = Config(**vars(parser.parse_args(arguments)))

    losses: list[Any] = []  # kept as the framework's scalars, since float() waits for the GPU
    kept = Path(config.resume) if config.resume else None
    with build(config) as loader:
        if kept and kept.exists():
            loader.set_state(kept.read_bytes())
        make = {"torch": torch_model, "jax": jax_model}.get(config.framework)
        model, step = make(len(loader.manifest.classes)) if make else (None, None)
        end = len(loader) * config.epochs
        last = min(end, loader.step + config.steps) if config.steps else end
        while loader.step < last:
            for batch in loader:
                if step is not None:
                    model, loss = step(model, batch["image"], batch["label"])
                    losses.append(loss)
                    if loader.step % config.log_every == 0:
                        recent = [float(loss) for loss in losses[-config.log_every :]]
                        print(f"step {loader.step:,}: loss {sum(recent) / len(recent):.3f}")
                if loader.step == last:
                    break
            rate, waiting = loader.stats.images_per_second, loader.stats.waiting_share
            print(f"step {loader.step:,}: {rate:,.0f} images/s, {waiting:.0%} of the time waiting")
            if kept:
                kept.write_bytes(loader.get_state())
    return [float(loss) for loss in losses]


if __name__ == "__main__":
    main()
