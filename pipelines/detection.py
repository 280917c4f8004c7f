"""Feed a detector with NABirds: each image with its bird's box, resized and padded to one size.

For torch, batches have the form that torchvision's detectors take: a list of images, and a list of
dicts of `boxes` and `labels`, where 0 is the background. For JAX and NumPy, they are arrays of one
shape, with room for `max_boxes` boxes in each image and a mask. Computing the mean box is a
placeholder for your network.

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
    """The settings to edit; each field is an option of the command line."""

    data: Annotated[str, "NABirds folder, or a metadata.parquet"] = "nabirds"
    framework: Annotated[Literal["torch", "jax", "numpy"], "kind of arrays"] = "torch"
    device: Annotated[str, "auto, cpu, cuda or cuda:1"] = "auto"
    batch_size: Annotated[int, "images in a batch"] = 16
    size: Annotated[int, "side of the images in pixels"] = 320
    max_boxes: Annotated[int, "most boxes of an image, for jax and numpy"] = 4
    steps: Annotated[int, "most batches; 0 for one epoch"] = 0
    seed: Annotated[int, "seed of all random numbers"] = 0


def for_torchvision(samples: list[dict[str, Any]]) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the images, which are views of the batch's memory, and the targets of each."""
    targets = [{"boxes": sample["boxes"], "labels": sample["box_labels"] + 1} for sample in samples]
    return [sample["image"] for sample in samples], targets


def build(config: Config) -> gpufeed.Loader:
    """Return the feed of the train split: large scale jitter, then crop or pad to a square."""
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
    """Return all boxes of a batch in either form, float32 (k, 4)."""
    if isinstance(batch, tuple):
        _, targets = batch
        boxes = np.concatenate([target["boxes"].cpu().numpy() for target in targets])
    else:
        boxes = np.asarray(batch["boxes"])[np.asarray(batch["box_valid"])]
    return np.asarray(boxes)


def main(arguments: Sequence[str] | None = None) -> tuple[int, int]:
    """Run the command line; return the numbers of images and of boxes."""
    config = options(Config, __doc__, arguments)
    images = 0
    boxes = [np.zeros((0, 4), np.float32)]
    with build(config) as loader:
        for batch in itertools.islice(loader, config.steps or None):
            images += config.batch_size
            boxes.append(boxes_of(batch))
        rate = loader.stats.images_per_second
    all_boxes = np.concatenate(boxes)
    mean = ", ".join(f"{share:.2f}" for share in all_boxes.mean(axis=0) / config.size)
    print(f"{images:,} images, {len(all_boxes):,} boxes, {rate:,.0f} images/s")
    print(f"mean box (x0, y0, x1, y1) as shares of the image: {mean}")
    return images, len(all_boxes)


if __name__ == "__main__":
    run(main)
