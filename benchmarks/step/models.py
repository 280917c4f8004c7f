"""The models that are trained."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from benchmarks.step.resnet import resnet
from benchmarks.step.vit import VisionTransformer

__all__ = ["CLASSES", "MODELS", "make"]

CLASSES = 1000

MODELS: dict[str, Callable[[int], nn.Module]] = {
    "resnet50": lambda _: resnet(CLASSES, (3, 4, 6, 3), 64),
    "small": lambda _: resnet(CLASSES, (1, 1, 1, 1), 16),
    "vit_s": lambda size: VisionTransformer(size, CLASSES, depth=12, width=384),
    "vit_small": lambda size: VisionTransformer(size, CLASSES, depth=2, width=64),
}
"""By name, functions from the side of the images in pixels to a new model; the small ones are for
the CPU."""


def make(name: str, size: int) -> nn.Module:
    """Return a new model: from float32 (N, 3, size, size) to scores (N, CLASSES)."""
    return MODELS[name](size)
