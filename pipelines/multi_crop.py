"""Feed two large and several small views of each bird, as DINO takes them, from one decode.

A mosaic of 8 x 8 mean colours is a placeholder for student and teacher. The loss is DINO's: it
compares the student's output for every view with the teacher's output for the other large views.

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
    """The settings to edit; each field is an option of the command line."""

    data: Annotated[str, "NABirds folder, or a metadata.parquet"] = "nabirds"
    framework: Annotated[Literal["torch", "jax", "numpy"], "kind of arrays"] = "torch"
    device: Annotated[str, "auto, cpu, cuda or cuda:1"] = "auto"
    batch_size: Annotated[int, "images in a batch"] = 64
    steps: Annotated[int, "most batches; 0 for one epoch"] = 0
    size: Annotated[int, "side of the large views, a multiple of 8"] = 224
    local_size: Annotated[int, "side of the small views, a multiple of 8"] = 96
    local_crops: Annotated[int, "small views of each image"] = 8
    seed: Annotated[int, "seed of all random numbers"] = 0


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
    """Return the output of a placeholder encoder: a mosaic of 8 x 8 mean colours, (n, 192)."""
    tile = view.shape[2] // 8
    nhwc = view.shape[-1] == 3  # in jax; the others have NCHW
    blocks, axes = ((8, tile, 8, tile, 3), (2, 4)) if nhwc else ((3, 8, tile, 8, tile), (3, 5))
    # The framework computes this on its device, so that no image leaves it.
    means = view.reshape(-1, *blocks).mean(axes).reshape(-1, 192)
    return np.asarray(means.cpu() if hasattr(means, "cpu") else means, dtype=np.float64)


def softmax(scores: Embedding, temperature: float) -> Embedding:
    """Return probabilities, each row with the sum 1."""
    exponentials = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def distil(student: Sequence[Embedding], teacher: Sequence[Embedding]) -> float:
    """Return DINO's loss: the mean over pairs of different views, each (n, d)."""
    pairs = [
        -(softmax(target, 0.4) * np.log(softmax(output, 1.0))).sum(axis=1).mean()
        for i, target in enumerate(teacher)
        for j, output in enumerate(student)
        if i != j
    ]
    return float(np.mean(pairs))


def main(arguments: Sequence[str] | None = None) -> list[float]:
    """Run the command line; return the loss of each step."""
    config = options(Config, __doc__, arguments)
    losses: list[float] = []
    with build(config) as loader:
        for batch in loader:
            outputs = [embed(view) for view in batch["image"]]
            losses.append(distil(outputs, outputs[:2]))
            if loader.step == config.steps:
                break
        rate = loader.stats.images_per_second
    views = 2 + config.local_crops
    mean = np.mean(losses)
    print(f"{len(losses)} batches of {views} views, loss {mean:.3f}, {rate:,.0f} images/s")
    return losses


if __name__ == "__main__":
    run(main)
