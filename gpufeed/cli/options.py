"""The options that several commands share."""

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
    """The transforms: the name of a function in `gpufeed.presets`."""

    train = "train"
    evaluate = "evaluate"
    torchvision_train = "torchvision_train"
    timm_train = "timm_train"
    simclr = "simclr"
    dino = "dino"
    course_train = "course_train"
    course_evaluate = "course_evaluate"


class Framework(StrEnum):
    """The framework whose arrays a batch holds."""

    numpy = "numpy"
    torch = "torch"
    jax = "jax"


class LastBatch(StrEnum):
    """How to treat the end of an epoch that fills no batch."""

    drop = "drop"
    pad = "pad"
    partial = "partial"


class OnError(StrEnum):
    """How to treat bad images."""

    raise_ = "raise"
    substitute = "substitute"
    blank = "blank"


class Labels(StrEnum):
    """The kind of labels."""

    class_ = "class"
    species = "species"


class Split(StrEnum):
    """A part of the data."""

    train = "train"
    test = "test"
    all = "all"


class Sampler(StrEnum):
    """A sampler whose order is examined."""

    index_ = "index"
    repeated = "repeated"
    weighted = "weighted"
    balanced = "balanced"
    sequential = "sequential"


BatchSize = Annotated[int, typer.Option(min=1, help="Images in a batch.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]
Device = Annotated[str, typer.Option(help="Device to run on: auto, cpu, cuda or cuda:1.")]
_DATA = "A NABirds folder, a metadata.parquet, or a folder with a folder for each class."
Data = Annotated[Path, typer.Option(help=_DATA)]
DataArgument = Annotated[Path, typer.Argument(help=_DATA, metavar="DATA")]
LabelsOption = Annotated[
    Labels | None, typer.Option(help="Kind of labels; species by default, if the data have them.")
]
PresetOption = Annotated[Preset, typer.Option(help="Transforms of the images.")]

Without = Annotated[
    Path | None,
    typer.Option(
        help="Leave out the bad images in this list, which `gpufeed check --parquet` writes, "
        "links that leave the folder, and images without a readable header."
    ),
]
