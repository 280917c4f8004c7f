"""Presets in torchvision's transforms, on images that Pillow decodes one at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from PIL import Image

from benchmarks.compare.peers.torch_loader import import_transforms
from benchmarks.compare.work import MEAN, STD

__all__ = ["RECIPES", "batches", "refusal"]


def refusal() -> str:
    """Why torchvision cannot take part; "" where it can."""
    try:
        import_transforms()
    except (ImportError, RuntimeError) as error:
        return f"torchvision cannot be imported: {error}"
    return ""


def _finished(v2: Any, mean: Sequence[float] = MEAN, std: Sequence[float] = STD) -> list[Any]:
    import torch

    return [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)]


def _cropped(v2: Any, size: int, scale: tuple[float, float] = (0.08, 1.0), how: int = 2) -> Any:
    return [v2.RandomResizedCrop(size, scale=scale, interpolation=how), v2.RandomHorizontalFlip()]


def _train(v2: Any) -> list[Any]:
    return [v2.Compose([*_cropped(v2, 224), *_finished(v2)])]


def _evaluate(v2: Any) -> list[Any]:
    return [v2.Compose([v2.Resize(256), v2.CenterCrop(224), *_finished(v2)])]


def _torchvision(v2: Any) -> list[Any]:
    augmented = [*_cropped(v2, 176), v2.TrivialAugmentWide()]
    return [v2.Compose([*augmented, *_finished(v2), v2.RandomErasing(p=0.1)])]


def _timm(v2: Any) -> list[Any]:
    """With torchvision's RandAugment for timm's."""
    augmented = [*_cropped(v2, 224, how=3), v2.RandAugment(2, 9)]
    erased = v2.RandomErasing(p=0.25, value="random")
    return [v2.Compose([*augmented, *_finished(v2), erased])]


def _coloured(v2: Any, *factors: float) -> list[Any]:
    return [v2.RandomApply([v2.ColorJitter(*factors)], p=0.8), v2.RandomGrayscale(0.2)]


def _simclr(v2: Any) -> list[Any]:
    blur = v2.RandomApply([v2.GaussianBlur(23, (0.1, 2.0))], p=0.5)
    coloured = _coloured(v2, 0.8, 0.8, 0.8, 0.2)
    finished = _finished(v2, (0.0,) * 3, (1.0,) * 3)
    return [v2.Compose([*_cropped(v2, 224), *coloured, blur, *finished])] * 2


def _dino(v2: Any) -> list[Any]:
    blur = v2.GaussianBlur(17, (0.1, 2.0))

    def view(size: int, scale: tuple[float, float], *more: Any) -> Any:
        coloured = _coloured(v2, 0.4, 0.4, 0.2, 0.1)
        return v2.Compose([*_cropped(v2, size, scale, 3), *coloured, *more, *_finished(v2)])

    second = (v2.RandomApply([blur], p=0.1), v2.RandomSolarize(128, p=0.2))
    small = view(96, (0.05, 0.4), v2.RandomApply([blur], p=0.5))
    return [view(224, (0.4, 1.0), blur), view(224, (0.4, 1.0), *second), *[small] * 8]


RECIPES: dict[str, Callable[[Any], list[Any]]] = {
    "train": _train,
    "evaluate": _evaluate,
    "torchvision_train": _torchvision,
    "timm_train": _timm,
    "simclr": _simclr,
    "dino": _dino,
}
"""A transform for each view, by preset."""


def batches(preset: str, files: Sequence[str], batch_size: int) -> Iterator[Any]:
    """Endless batches of a preset, on the thread that asks for them."""
    import torch

    torch.set_num_threads(1)
    views = RECIPES[preset](import_transforms())
    turns = itertools.cycle(files)
    while True:
        made: list[list[Any]] = [[] for _ in views]
        for path in itertools.islice(turns, batch_size):
            with Image.open(path) as opened:
                picture = opened.convert("RGB")
            for view, transform in zip(made, views, strict=True):
                view.append(transform(picture))
        yield [torch.stack(view) for view in made]
