"""Feed NABirds as the WestDRI course "AI with JAX" does, directly from the original photos.

One training epoch comes in shuffled batches of 32, without an incomplete last batch; then the
validation images come in order, in batches of 64. Batches have the course's names and dtypes.

    python -m pipelines.course --data nabirds/

The course's own `metadata.parquet`, with the photos beside it, works as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

import gpufeed
from pipelines.command import options, run

COLUMNS = ("species_name", "photographer")


@dataclass(frozen=True)
class Config:
    """The settings to edit; each field is an option of the command line."""

    data: Annotated[str, "NABirds folder, or the course's metadata.parquet"] = "nabirds"
    framework: Annotated[Literal["jax", "torch", "numpy"], "kind of arrays"] = "jax"
    device: Annotated[str, "auto, cpu, cuda or cuda:1"] = "auto"
    batch_size: Annotated[int, "images in a batch; 0 for 32 in train and 64 in test"] = 0
    steps: Annotated[int, "most batches of each split; 0 for all"] = 0
    seed: Annotated[int, "seed of all random numbers"] = 0


def build(config: Config, split: Literal["train", "test"] = "train") -> gpufeed.Loader:
    """Return the course's feed of one split."""
    birds = gpufeed.read_nabirds(config.data, labels="species").split(split)
    if split == "test":
        return gpufeed.Loader.for_evaluation(
            birds,
            transforms=gpufeed.presets.course_evaluate(),
            batch_size=config.batch_size or 64,
            last_batch="partial",
            columns=COLUMNS,
            device=config.device,
            framework=config.framework,
        )
    return gpufeed.Loader(
        birds,
        sampler=gpufeed.IndexSampler(len(birds), shuffle=True, seed=config.seed),
        transforms=gpufeed.presets.course_train(),
        batch_size=config.batch_size or 32,
        columns=COLUMNS,
        device=config.device,
        framework=config.framework,
    )


def course_batches(loader: gpufeed.Loader) -> Iterator[dict[str, Any]]:
    """Yield batches in the form that the course's code expects.

    `img` is float32 in -1..1, (n, 224, 224, 3) in jax and (n, 3, 224, 224) otherwise. `species_id`
    counts from 0, so that a loss can take it directly; the course's counts from 1.
    """
    for batch in loader:
        yield {
            "img": batch["image"],
            "species_id": batch["label"],
            **{name: np.array(batch[name]) for name in COLUMNS},
        }


def main(arguments: Sequence[str] | None = None) -> dict[str, int]:
    """Run the command line; return the number of images of each split."""
    config = options(Config, __doc__, arguments)
    fed: dict[str, int] = {}
    splits: tuple[Literal["train", "test"], ...] = ("train", "test")
    for split in splits:
        with build(config, split) as loader:
            fed[split] = 0
            for batch in itertools.islice(course_batches(loader), config.steps or None):
                if not fed[split]:
                    print(f"{split}: img {tuple(batch['img'].shape)} {batch['img'].dtype}")
                    names = zip(batch["species_name"], batch["photographer"], strict=True)
                    for species, photographer in itertools.islice(names, 3):
                        print(f"  {species}, by {photographer}")
                fed[split] += len(batch["species_name"])
            print(f"  {fed[split]:,} images, {loader.stats.images_per_second:,.0f} images/s")
    return fed


if __name__ == "__main__":
    run(main)
