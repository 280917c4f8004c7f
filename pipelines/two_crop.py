"""Feed two views of each bird for self-supervised training, as SimCLR and BYOL take them.

A mosaic of 8 x 8 mean colours is a placeholder for your encoder. The loss is SimCLR's (NT-Xent): it
draws the two views of an image together and pushes views of different images apart.

    python -m pipelines.two_crop --data nabirds/
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
    size: Annotated[int, "side of the views, a multiple of 8"] = 224
    seed: Annotated[int, "seed of all random numbers"] = 0


def build(config: Config) -> gpufeed.Loader:
    """Return the feed of the train split: `image` is a list of two arrays."""
    birds = gpufeed.read_nabirds(config.data, labels="species").split("train")
    return gpufeed.Loader(
        birds,
        sampler=gpufeed.IndexSampler(len(birds), shuffle=True, seed=config.seed),
        transforms=gpufeed.presets.simclr(config.size),
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


def contrast(one: Embedding, other: Embedding, temperature: float = 0.5) -> float:
    """Return SimCLR's loss of two batches of embeddings, (n, d) each."""
    both = np.concatenate([one, other])
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    similarity = np.exp(both @ both.T / temperature)
    np.fill_diagonal(similarity, 0.0)
    partner = np.roll(np.arange(len(both)), len(one))
    positive = similarity[np.arange(len(both)), partner]
    return float(-np.log(positive / similarity.sum(axis=1)).mean())


def main(arguments: Sequence[str] | None = None) -> list[float]:
    """Run the command line; return the loss of each step."""
    config = options(Config, __doc__, arguments)
    losses: list[float] = []
    with build(config) as loader:
        for batch in loader:
            one, other = batch["image"]
            losses.append(contrast(embed(one), embed(other)))
            if loader.step == config.steps:
                break
        rate = loader.stats.images_per_second
    mean = np.mean(losses)
    print(f"{len(losses)} batches of two views, loss {mean:.3f}, {rate:,.0f} images/s")
    return losses


if __name__ == "__main__":
    run(main)
