"""Tell pairs of birds of one species from others, the task of matching and change detection.

A record is two images with one label, whether they show the same species. Each is cropped to its
own bird, and both are flipped, or neither. The distance between histograms of their colours is a
placeholder for your network, which takes `batch["image"]` and `batch["other"]`.

    gpufeed synth birds/ && python -m pipelines.pairs --data birds/
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
    framework: Annotated[Literal["torch", "jax", "numpy"], "kind of arrays"] = "torch"
    device: Annotated[str, "auto, cpu, cuda or cuda:1"] = "auto"
    batch_size: Annotated[int, "pairs in a batch"] = 64
    seed: Annotated[int, "seed of all random numbers"] = 0


def build(config: Config, split: str = "test") -> gpufeed.Loader:
    """Return the feed of a split, in which every second pair is of one species."""
    birds = gpufeed.read_nabirds(config.data).split(split)
    draw, species = np.random.default_rng(config.seed), birds.frame["label"].to_numpy()
    order, counts = np.argsort(species, kind="stable"), np.bincount(species)
    first = (counts.cumsum() - counts)[species[order]]
    alike = np.empty_like(order)  # the next bird of the species, in a circle
    alike[order] = order[first + (np.arange(len(birds)) - first + 1) % counts[species[order]]]
    paired = (np.arange(len(birds)) % 2 == 0) & (counts[species] > 1)
    others = np.where(paired, alike, draw.permutation(len(birds)))
    same = pl.Series("label", (species == species[others]).astype(np.int32))
    pairs = gpufeed.Manifest(birds.frame.with_columns(same), birds.source, ["different", "same"])
    make = gpufeed.Loader if split == "train" else gpufeed.Loader.for_evaluation
    return make(
        pairs,
        transforms=[
            gpufeed.BoxCrop(0.1),
            gpufeed.Resize((224, 224)),
            gpufeed.RandomHorizontalFlip(),
            gpufeed.ToDtype("uint8", layout="NHWC"),  # for a network: gpufeed.Normalize()
        ],
        targets=[gpufeed.Pair("other", birds.take(others))],
        batch_size=config.batch_size,
        device=config.device,
        framework=config.framework,
    )


def host(array: Any) -> npt.NDArray[Any]:
    """Return an array of any framework in host memory."""
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)


def histograms(images: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Return how often each of 8 x 8 x 8 colours occurs in the middle of each image, (n, 512)."""
    levels = images[:, 50:-50, 50:-50].astype(np.intp) // 32
    colours = (levels @ [64, 8, 1]).reshape(len(images), -1)
    return np.stack([np.bincount(each, minlength=512) / each.size for each in colours])


def main(arguments: Sequence[str] | None = None) -> float:
    """Run the command line; return how often a pair of one species is closer than another."""
    config = options(Config, __doc__, arguments)
    distances, same = [], []
    with build(config) as loader:
        for batch in loader:
            arrays = {name: host(values) for name, values in batch.items()}
            apart = histograms(arrays["image"]) - histograms(arrays["other"])
            distances.append(np.abs(apart).sum(axis=1)[arrays["valid"]])
            same.append(arrays["label"][arrays["valid"]] == 1)
    apart, alike = np.concatenate(distances), np.concatenate(same)
    share = float((apart[alike, None] < apart[None, ~alike]).mean())
    print(f"{len(apart)} pairs; those of one species are closer in {share:.0%} of comparisons")
    return share


if __name__ == "__main__":
    run(main)
