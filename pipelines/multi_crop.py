"""Two large and several small views of each bird, as DINO takes them, from one decode.

A mosaic of 8 x 8 mean colours stands in for student and teacher; the loss is DINO's: what the
student makes of every view is compared with what the teacher makes of the other large one.

    python -m pipelines.multi_crop --data nabirds/ --local-crops 6
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

import gpufeed
from pipelines.command import options, run

Embedding = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Config:
    """What to edit; each field is an option of the command line."""

    data: Annotated[str, "the folder of NABirds, or a metadata.parquet"] = "nabirds"
    framework: Annotated[Literal["torch", "jax", "numpy"], "whose arrays to make"] = "torch"
    device: Annotated[str, "auto, cpu, cuda or cuda:1"] = "auto"
    batch_size: Annotated[int, "images in a batch"] = 64
    steps: Annotated[int, "the most batches; 0: one epoch"] = 0
    size: Annotated[int, "side of the large views, a multiple of 8"] = 224
    local_size: Annotated[int, "side of the small views, a multiple of 8"] = 96
    local_crops: Annotated[int, "small views of an image"] = 8
    seed: Annotated[int, "of everything random"] = 0


def build(config: Config) -> gpufeed.Loader:
    """Return the feed of the train split: `image` is a list of arrays, the large ones first."""
    birds = gpufeed.read_nabirds(config.data, labels="species").split("train")
    return gpufeed.Loader(
        birds,
        sampler=gpufeed.IndexSampler(len(birds), shuffle=True, seed=config.seed),
        transforms=gpufeed.presets.dino(
            config.size, local_size=config.local_size, local_crops=config.local_crops
        ),
        batch_size=config.batch_size,
        device=config.device,
        framework=config.framework,
    )


def embed(view: Any) -> Embedding:
    """Return what stands for your encoder: a mosaic of 8 x 8 mean colours, (n, 192)."""
    tile = view.shape[-1] // 8
    # Worked out by the framework on its device, so that no image has to leave it.
    means = view.reshape(-1, 3, 8, tile, 8, tile).mean((3, 5)).reshape(-1, 192)
    return np.asarray(means.cpu() if hasattr(means, "cpu") else means, dtype=np.float64)


def softmax(scores: Embedding, temperature: float) -> Embedding:
    """Return shares, each row's of sum 1."""
    raised = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def distil(student: Sequence[Embedding], teacher: Sequence[Embedding]) -> float:
    """Return DINO's loss: the mean over pairs of different views, each (n, d)."""
    pairs = [
        -(softmax(wanted, 0.4) * np.log(softmax(made, 1.0))).sum(axis=1).mean()
        for place, wanted in enumerate(teacher)
        for other, made in enumerate(student)
        if place != other
    ]
    return float(np.mean(pairs))


def main(arguments: Sequence[str] | None = None) -> list[float]:
    """Run the command line; returns the loss of each step."""
    config = options(Config, __doc__, arguments)
    losses: list[float] = []
    with build(config) as loader:
        for batch in loader:
            made = [embed(view) for view in batch["image"]]
            losses.append(distil(made, made[:2]))
            if loader.step == config.steps:
                break
        rate = loader.stats.images_per_second
    views = 2 + config.local_crops
    mean = np.mean(losses)
    print(f"{len(losses)} batches of {views} views, loss {mean:.3f}, {rate:,.0f} images a second")
    return losses


if __name__ == "__main__":
    run(main)
