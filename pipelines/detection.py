"""Feed a detector with NABirds: each image with its bird's box, resized and padded to one size.

For torch, batches are what torchvision's detectors take: a list of images, and of dicts of
`boxes` and `labels`, where 0 is the background. For JAX and NumPy they are arrays of one shape,
with room for `max_boxes` in each image and a mask of those that there are. What is learnt from
them stands in for your network: the mean box, as a share of the image.

    python -m pipelines.detection --data nabirds/ --framework torch
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

import gpufeed
from pipelines.command import options, run


@dataclass(frozen=True)
class Config:
    """What to edit; each field is an option of the command line."""

    data: Annotated[str, "the folder of NABirds, or a metadata.parquet"] = "nabirds"
    framework: Annotated[Literal["torch", "jax", "numpy"], "whose arrays to make"] = "torch"
    device: Annotated[str, "auto, cpu, cuda or cuda:1"] = "auto"
    batch_size: Annotated[int, "images in a batch"] = 16
    size: Annotated[int, "side of the images, pixels"] = 320
    max_boxes: Annotated[int, "room for boxes in an image, for jax and numpy"] = 4
    steps: Annotated[int, "the most batches; 0: an epoch"] = 0
    seed: Annotated[int, "of everything random"] = 0


def for_torchvision(samples: list[dict[str, Any]]) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the images, views of the batch's memory, and the targets of each."""
    targets = [{"boxes": each["boxes"], "labels": each["box_labels"] + 1} for each in samples]
    return [each["image"] for each in samples], targets


def build(config: Config) -> gpufeed.Loader:
    """Return the feed of the train split: large scale jitter, then cut or padded to a square."""
    birds = gpufeed.read_nabirds(config.data, labels="species").split("train")
    lists = config.framework == "torch"
    return gpufeed.Loader(
        birds,
        sampler=gpufeed.IndexSampler(len(birds), shuffle=True, seed=config.seed),
        transforms=[
            gpufeed.ScaleJitter((config.size, config.size), scale_range=(0.5, 1.5)),
            gpufeed.RandomCrop(config.size, pad_if_needed=True, fill=114),
            gpufeed.RandomHorizontalFlip(),
            gpufeed.ToDtype("float32", scale=True),
        ],
        batch_size=config.batch_size,
        device=config.device,
        framework=config.framework,
        targets=("boxes",),
        collate_fn=for_torchvision if lists else "pad",
        max_boxes=None if lists else config.max_boxes,
    )


def boxes_of(batch: Any) -> np.ndarray[Any, Any]:
    """Return all boxes of a batch of either kind, float32 (k, 4)."""
    if isinstance(batch, tuple):
        _, targets = batch
        boxes = np.concatenate([each["boxes"].cpu().numpy() for each in targets])
    else:
        boxes = np.asarray(batch["boxes"])[np.asarray(batch["box_valid"])]
    return np.asarray(boxes)


def main(arguments: Sequence[str] | None = None) -> tuple[int, int]:
    """Run the command line; returns how many images and how many boxes there were."""
    config = options(Config, __doc__, arguments)
    pictures = 0
    boxes = [np.zeros((0, 4), np.float32)]
    with build(config) as loader:
        for batch in itertools.islice(loader, config.steps or None):
            pictures += config.batch_size
            boxes.append(boxes_of(batch))
        rate = loader.stats.images_per_second
    found = np.concatenate(boxes)
    mean = ", ".join(f"{share:.2f}" for share in found.mean(axis=0) / config.size)
    print(f"{pictures:,} images, {len(found):,} boxes, {rate:,.0f} images a second")
    print(f"the mean box goes from and to (x0, y0, x1, y1) {mean} of the image")
    return pictures, len(found)


if __name__ == "__main__":
    run(main)
