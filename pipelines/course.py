"""The data part of the WestDRI course "AI with JAX" on NABirds, straight from the original photos.

One training epoch in shuffled batches of 32, of which the last is left out when not full; then the
validation images in their order, in batches of 64. Batches have the course's names and types.

    python -m pipelines.course --data nabirds/

The course's own `metadata.parquet` beside the photos will do as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import gpufeed
from pipelines.command import options, run


@dataclass(frozen=True)
class Config:
    """What to edit; each field is an option of the command line."""

    data: Annotated[str, "the folder of NABirds, or the course's metadata.parquet"] = "nabirds"
    framework: Annotated[Literal["jax", "torch", "numpy"], "whose arrays to make"] = "jax"
    device: Annotated[str, "auto, cpu, cuda or cuda:1"] = "auto"
    batch_size: Annotated[int, "images in a batch; 0: 32 for train, 64 for test"] = 0
    steps: Annotated[int, "the most batches of each split; 0: all"] = 0
    seed: Annotated[int, "of everything random"] = 0


def build(config: Config, split: Literal["train", "test"] = "train") -> gpufeed.Loader:
    """Return the course's feed of one split."""
    birds = gpufeed.read_nabirds(config.data, labels="species").split(split)
    training = split == "train"
    presets = gpufeed.presets
    return gpufeed.Loader(
        birds,
        sampler=gpufeed.IndexSampler(len(birds), shuffle=training, seed=config.seed),
        transforms=presets.course_train() if training else presets.course_evaluate(),
        batch_size=config.batch_size or (32 if training else 64),
        last_batch="drop" if training else "partial",
        device=config.device,
        framework=config.framework,
    )


def course_batches(loader: gpufeed.Loader) -> Iterator[dict[str, Any]]:
    """Yield batches as the course's code takes them.

    `img` is float32 (n, 224, 224, 3) in -1..1. `species_id` counts from 0 and not, as the course's,
    from 1: it can be given to a loss as it is.
    """
    for batch in loader:
        rows = loader.rows(batch)
        yield {
            "img": batch["image"],
            "species_id": batch["label"],
            "species_name": rows["species_name"].to_numpy(),
            "photographer": rows["photographer"].to_numpy(),
        }


def main(arguments: Sequence[str] | None = None) -> dict[str, int]:
    """Run the command line; returns how many images each split gave."""
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
            print(f"  {fed[split]:,} images, {loader.stats.images_per_second:,.0f} a second")
    return fed


if __name__ == "__main__":
    run(main)
