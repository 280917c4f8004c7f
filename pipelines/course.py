"""The data part of the WestDRI course "AI with JAX" on NABirds, straight from the original photos.

One training epoch in shuffled batches of 32, of which the last is left out when not full; then the
validation pictures in their order, in batches of 64. Batches have the course's names and types.

    python -m pipelines.course --data nabirds/

The course's own `metadata.parquet` beside the photos will do as well.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import gpufeed


@dataclasses.dataclass(frozen=True)
class Config:
    """What to edit; each field is an option of the command line."""

    data: str = "nabirds"
    framework: Literal["jax", "torch", "numpy"] = "jax"
    device: str = "auto"
    split: str = "train"  # what `build` feeds: "train" or "test"
    batch_size: int = 0  # 0 takes the course's: 32 for train, 64 for test
    steps: int = 0  # the most batches of each split; 0 for all
    seed: int = 0


def build(config: Config) -> gpufeed.Loader:
    """Return the course's feed of one split."""
    birds = gpufeed.read_nabirds(config.data, labels="species").split(config.split)
    training = config.split == "train"
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
    """Run the command line; returns how many pictures each split gave."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for field in dataclasses.fields(Config):
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(option, type=type(field.default), default=field.default)
    config = Config(**vars(parser.parse_args(arguments)))

    fed = {}
    for split in ("train", "test"):
        with build(dataclasses.replace(config, split=split)) as loader:
            fed[split] = 0
            for batch in itertools.islice(course_batches(loader), config.steps or None):
                if not fed[split]:
                    print(f"{split}: img {tuple(batch['img'].shape)} {batch['img'].dtype}")
                    for place in range(3):
                        print(
                            f"  {batch['species_name'][place]}, by {batch['photographer'][place]}"
                        )
                fed[split] += len(batch["species_name"])
            print(f"  {fed[split]:,} pictures, {loader.stats.images_per_second:,.0f} a second")
    return fed


if __name__ == "__main__":
    main()
