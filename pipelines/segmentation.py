"""Train a segmentation network on birds and background, and measure its mean IoU.

Masks come with the images and move with them. They lie in a folder of their own, with the paths
of the images, and the suffix .png; `gpufeed synth` writes such a set.

    gpufeed synth birds/ && python -m pipelines.segmentation --data birds/
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

import gpufeed
from pipelines.command import options, run


@dataclass(frozen=True)
class Config:
    """The settings to edit; each field is an option of the command line."""

    data: Annotated[str, "NABirds folder with a folder segmentations/"] = "nabirds"
    framework: Annotated[Literal["torch", "jax", "numpy"], "kind of arrays; torch trains"] = "torch"
    device: Annotated[str, "auto, cpu, cuda or cuda:1"] = "auto"
    batch_size: Annotated[int, "images in a batch"] = 16
    size: Annotated[int, "side of the images in pixels"] = 160
    epochs: Annotated[int, "times to go through the images"] = 4
    seed: Annotated[int, "seed of all random numbers"] = 0


def build(config: Config, split: str = "train") -> gpufeed.Loader:
    """Return the feed of a split: a batch's `mask` is 1 on birds and 255 on padding."""
    birds, train = gpufeed.read_nabirds(config.data).split(split), split == "train"
    root = Path(config.data) / "segmentations"
    preset = gpufeed.presets.segment_train if train else gpufeed.presets.segment_evaluate
    epochs = config.epochs if train else 1
    order = gpufeed.IndexSampler(len(birds), shuffle=train, seed=config.seed, num_epochs=epochs)
    return gpufeed.Loader(
        birds,
        sampler=order,
        transforms=preset(config.size),
        targets=[gpufeed.Mask("mask", column="path", root=root, suffix=".png")],
        batch_size=config.batch_size,
        last_batch="drop" if train else "pad",
        device=config.device,
        framework=config.framework,
    )


def train(config: Config) -> float:
    """Train a small network, and return its mean IoU on the test split."""
    import torch
    from torch import nn

    def block(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        conv = nn.Conv2d(inputs, outputs, 5, stride, 2, bias=False)
        return [conv, nn.BatchNorm2d(outputs), nn.ReLU()]

    torch.manual_seed(config.seed)
    layers = [*block(3, 16, 2), *block(16, 32, 2), *block(32, 64, 2), *block(64, 64, 1)]
    net = nn.Sequential(*layers, nn.Conv2d(64, 2, 1), nn.Upsample(scale_factor=8, mode="bilinear"))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    with build(config) as loader:
        for batch in loader.forever():
            loss: Any = nn.functional.cross_entropy(
                net.to(batch["image"].device)(batch["image"]),
                batch["mask"].long(),
                ignore_index=255,
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    counts = torch.zeros(2, 2)  # [true class, predicted class]
    net.eval()
    with build(config, "test") as loader, torch.no_grad():
        for batch in loader:
            seen = (batch["mask"] != 255) & batch["valid"][:, None, None]
            true, found = batch["mask"][seen].long(), net(batch["image"]).argmax(1)[seen]
            counts += torch.bincount(2 * true + found, minlength=4).reshape(2, 2).cpu()
    right = counts.diag()
    return float((right / (counts.sum(0) + counts.sum(1) - right)).mean())


def main(arguments: Sequence[str] | None = None) -> float:
    """Run the command line; return the mean IoU, or of other frameworks the birds' share."""
    config = options(Config, __doc__, arguments)
    if config.framework == "torch":
        result = train(config)
        print(f"mean IoU {result:.3f}")
    else:
        with build(config) as loader:
            masks = [np.asarray(batch["mask"]) for batch in itertools.islice(loader, 4)]
        result = float(np.mean([(mask[mask != 255] == 1).mean() for mask in masks]))
        print(f"{result:.0%} of the pixels are birds")
    return result


if __name__ == "__main__":
    run(main)
