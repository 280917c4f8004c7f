"""Predict several classes of each image, or a number: NABirds' visible parts, or a bird's size.

With `--task parts`, labels are lists of the parts that can be seen, and come as float32 (n, parts)
of 0 and 1. With `--task size`, they are the share of the image that the bird's box covers, and come
as float32 (n,). A linear layer in NumPy on a mosaic of 7 x 7 mean colours is a placeholder for your
network; with one, use `binary_cross_entropy_with_logits` and `mse_loss` in torch, or optax's
`sigmoid_binary_cross_entropy` and `l2_loss` in JAX.

    python -m pipelines.attributes --data nabirds/ --task parts
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

import gpufeed
from pipelines.command import options, run


@dataclass(frozen=True)
class Config:
    """The settings to edit; each field is an option of the command line."""

    data: Annotated[str, "NABirds folder"] = "nabirds"
    task: Annotated[Literal["parts", "size"], "what to predict"] = "parts"
    framework: Annotated[Literal["torch", "jax", "numpy"], "kind of arrays"] = "torch"
    device: Annotated[str, "auto, cpu, cuda or cuda:1"] = "auto"
    batch_size: Annotated[int, "images in a batch"] = 64


def build(config: Config, split: str = "train") -> gpufeed.Loader:
    """Return the feed of one split, with labels for the task."""
    birds = gpufeed.read_nabirds(config.data).split(split)
    points = birds.points()
    label: pl.Expr | pl.Series
    if config.task == "size":
        label = pl.col("box_width") * pl.col("box_height") / (pl.col("width") * pl.col("height"))
    elif points is not None:
        label = pl.Series([np.flatnonzero(each).tolist() for each in points[..., 2]])
    else:
        raise gpufeed.ConfigError(f"{config.data} has no parts; use --task size")
    classes = birds.point_names if config.task == "parts" else ()
    labelled = gpufeed.Manifest(birds.frame.with_columns(label=label), birds.source, classes)
    make = gpufeed.Loader if split == "train" else gpufeed.Loader.for_evaluation
    return make(
        labelled,
        transforms=gpufeed.presets.evaluate(224),
        batch_size=config.batch_size,
        device=config.device,
        framework=config.framework,
    )


def arrays(batch: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return mosaics, float32 (n, 148) with a constant, and labels, (n, k), of the valid images."""
    image = batch["image"]
    blocks, axes = ((3, 7, 32, 7, 32), (3, 5))
    if image.shape[-1] == 3:  # in jax
        blocks, axes = ((7, 32, 7, 32, 3), (2, 4))
    means = image.reshape(-1, *blocks).mean(axes).reshape(-1, 147)
    found = [means, batch["label"], batch.get("valid", np.ones(len(means), bool))]
    x, y, valid = (np.asarray(a.cpu() if hasattr(a, "cpu") else a) for a in found)
    return np.insert(x, 0, 1.0, axis=1)[valid], y.reshape(len(y), -1)[valid]


def main(arguments: Sequence[str] | None = None) -> tuple[list[float], float]:
    """Run the command line; return the loss of each step, and the score on the test split."""
    config = options(Config, __doc__, arguments)
    several, weights, losses = config.task == "parts", np.zeros((148, 1)), []
    with build(config) as loader:
        for x, y in map(arrays, loader):
            z = x @ weights
            p = 1 / (1 + np.exp(-z)) if several else z
            loss = np.logaddexp(0, z) - y * z if several else (z - y) ** 2
            losses.append(float(loss.mean()))
            weights = weights - 0.005 * x.T @ (p - y) / len(x)
    with build(config, "test") as loader:
        pairs = [(x @ weights, y) for x, y in map(arrays, loader)]
    z, y = (np.concatenate(each) for each in zip(*pairs, strict=True))
    score = float(((z > 0) == (y > 0)).mean() if several else np.abs(z - y).mean())
    print(f"loss {losses[0]:.4f} to {losses[-1]:.4f} in {len(losses)} steps")
    print(f"right about {score:.1%} of the parts" if several else f"mean error {score:.3f}")
    return losses, score


if __name__ == "__main__":
    run(main)
