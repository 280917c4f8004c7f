"""Options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "BatchSize",
    "Data",
    "DataArgument",
    "Device",
    "Framework",
    "Labels",
    "LabelsOption",
    "LastBatch",
    "OnError",
    "Preset",
    "PresetOption",
    "Sampler",
    "Seed",
    "Split",
    "Without",
]


class Preset(StrEnum):
    """What is done to the images; a function of `gpufeed.presets`."""

    train = "train"
    evaluate = "evaluate"
    torchvision_train = "torchvision_train"
    timm_train = "timm_train"
    simclr = "simclr"
    dino = "dino"
    course_train = "course_train"
    course_evaluate = "course_evaluate"


class Framework(StrEnum):
    """Whose arrays are made."""

    numpy = "numpy"
    torch = "torch"
    jax = "jax"


class LastBatch(StrEnum):
    """What becomes of an epoch's tail."""

    drop = "drop"
    pad = "pad"
    partial = "partial"


class OnError(StrEnum):
    """What becomes of bad images."""

    raise_ = "raise"
    substitute = "substitute"
    blank = "blank"


class Labels(StrEnum):
    """What the labels are."""

    class_ = "class"
    species = "species"


class Split(StrEnum):
    """Which part of the data."""

    train = "train"
    test = "test"
    all = "all"


class Sampler(StrEnum):
    """Whose order."""

    index_ = "index"
    repeated = "repeated"
    weighted = "weighted"
    balanced = "balanced"
    sequential = "sequential"


BatchSize = Annotated[int, typer.Option(min=1, help="Images in a batch.")]
Seed = Annotated[int, typer.Option(min=0, help="Of everything random.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
_DATA = "A NABirds folder, a metadata.parquet, or a folder of class folders."
Data = Annotated[Path, typer.Option(help=_DATA)]
DataArgument = Annotated[Path, typer.Argument(help=_DATA, metavar="DATA")]
LabelsOption = Annotated[
    Labels | None, typer.Option(help="By default species, where the data have them.")
]
PresetOption = Annotated[Preset, typer.Option(help="What is done to the images.")]

Without = Annotated[
    Path | None,
    typer.Option(
        help="Leave out the bad images of this list, as `gpufeed check --parquet` writes it, and "
        "what cannot be listed: links that leave the folder, images without a readable header."
    ),
]
