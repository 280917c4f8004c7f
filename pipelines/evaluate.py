"""Evaluate on NABirds' test split: every image exactly once.

With several processes the last batch is padded; `valid` marks the images that count. A
nearest-neighbour classifier is a placeholder for your network: it reduces each bird to a mosaic of
7 x 7 mean colours and predicts the species of the most similar bird in the train split.

    python -m pipelines.evaluate --data nabirds/ --framework jax
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

import gpufeed
from pipelines.command import options, run


@dataclass(frozen=True)
class Config:
    """The settings to edit; each field is an option of the command line."""

    data: Annotated[str, "NABirds folder, or a metadata.parquet"] = "nabirds"
    framework: Annotated[Literal["torch", "jax", "numpy"], "kind of arrays"] = "torch"
    device: Annotated[str, "auto, cpu, cuda or cuda:1"] = "auto"
    batch_size: Annotated[int, "images in a batch"] = 64


def build(config: Config, split: Literal["train", "test"] = "test") -> gpufeed.Loader:
    """Return a feed of one split in order, each image cropped to its bird first."""
    birds = gpufeed.read_nabirds(config.data, labels="species").split(split)
    return gpufeed.Loader.for_evaluation(
        birds,
        transforms=[gpufeed.BoxCrop(), *gpufeed.presets.evaluate(224)],
        batch_size=config.batch_size,
        device=config.device,
        framework=config.framework,
    )


def mosaics(loader: gpufeed.Loader) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Yield the mosaics, float32 (n, 147), and labels, (n,), of each batch's valid images."""
    for batch in loader:
        image = batch["image"]
        nhwc = image.shape[-1] == 3  # in jax; the others have NCHW
        blocks, axes = ((7, 32, 7, 32, 3), (2, 4)) if nhwc else ((3, 7, 32, 7, 32), (3, 5))
        # The framework computes this on its device, so that no image leaves it.
        means = image.reshape(-1, *blocks).mean(axes)
        arrays = [means.reshape(-1, 147), batch["label"], batch["valid"]]
        mosaic, label, valid = (np.asarray(a.cpu() if hasattr(a, "cpu") else a) for a in arrays)
        yield mosaic[valid], label[valid]


def main(arguments: Sequence[str] | None = None) -> tuple[int, int]:
    """Run the command line; return the numbers of images and of correct predictions."""
    config = options(Config, __doc__, arguments)
    with build(config, "train") as loader:
        known, species = (np.concatenate(arrays) for arrays in zip(*mosaics(loader), strict=True))
    total = correct = 0
    with build(config) as loader:
        for mosaic, label in mosaics(loader):
            # Squared distances, without the term that does not depend on `known`.
            distance = (known**2).sum(1) - 2 * mosaic @ known.T
            correct += int((species[distance.argmin(1)] == label).sum())
            total += len(label)
        rate, classes = loader.stats.images_per_second, len(loader.manifest.classes)
    print(f"{total:,} images, {correct / total:.1%} of {classes} species, {rate:,.0f} images/s")
    return total, correct


if __name__ == "__main__":
    run(main)
